package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// usageError is an error in the command line, the environment or the context file.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// flagError is an error in the flags of a command. Its report shows the flags.
type flagError struct {
	error
	cmd *cobra.Command
}

func (e flagError) Unwrap() error { return e.error }

// invalidFlag returns the error of a command for flags that cannot be parsed.
func invalidFlag(cmd *cobra.Command, err error) error {
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		err = fmt.Errorf("%w%s", err, didYouMean("--", suggestedFlags(cmd, unknown.GetSpecifiedName())))
	}
	return flagError{usageError{err}, cmd}
}

// suggestedFlags returns the flags of a command whose names resemble the given one.
func suggestedFlags(cmd *cobra.Command, name string) []string {
	// Cobra compares names of commands.
	flags := &cobra.Command{}
	add := func(f *pflag.Flag) {
		if !f.Hidden {
			flags.AddCommand(&cobra.Command{Use: f.Name, Run: func(*cobra.Command, []string) {}})
		}
	}
	cmd.LocalNonPersistentFlags().VisitAll(add)
	cmd.InheritedFlags().VisitAll(add)
	return suggestions(flags, name)
}

// suggestions returns the commands of cmd whose names are closest to the given one.
func suggestions(cmd *cobra.Command, name string) []string {
	for cmd.SuggestionsMinimumDistance = 1; cmd.SuggestionsMinimumDistance <= 2; cmd.SuggestionsMinimumDistance++ {
		if found := cmd.SuggestionsFor(name); len(found) > 0 {
			return found
		}
	}
	return nil
}

// didYouMean returns the end of a message that proposes names, or "".
func didYouMean(prefix string, names []string) string {
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("; did you mean %s%s?", prefix, strings.Join(names, " or "+prefix))
}

// show prints how the command is used, without the flags of all commands.
func (e flagError) show(w io.Writer) {
	fmt.Fprintf(w, "\nUsage:\n  %s\n", e.cmd.UseLine())
	if flags := e.cmd.LocalNonPersistentFlags().FlagUsages(); flags != "" {
		fmt.Fprintf(w, "\nFlags:\n%s", flags)
	}
}

// arguments turns the errors of check into usage errors that show the usage line.
func arguments(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return usageError{fmt.Errorf("%w; usage: %s", err, cmd.UseLine())}
		}
		return nil
	}
}

// subcommandNeeded returns the usage error of a command that only groups subcommands.
func subcommandNeeded(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return usagef("%s requires a command: %s", cmd.CommandPath(), strings.Join(commandNames(cmd), ", "))
	}
	hint := didYouMean("", suggestions(cmd, args[0]))
	if hint == "" {
		hint = fmt.Sprintf(" (want %s)", strings.Join(commandNames(cmd), ", "))
	}
	return usagef("unknown command %q for %q%s", args[0], cmd.CommandPath(), hint)
}

func commandNames(cmd *cobra.Command) []string {
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return names
}

// keyOf returns the key that an argument names. Keys have no leading slash, but people type it, as in
// paths of files.
func keyOf(arg string) string { return strings.TrimLeft(arg, "/") }
