package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fanoutd/fanoutd/internal/object"
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
	if flags := flagUsages(e.cmd.LocalNonPersistentFlags()); flags != "" {
		fmt.Fprintf(w, "\nFlags:\n%s", flags)
	}
}

// flagUsages describes flags. Pflag would add `[="true"]` to a flag that needs no value; its description
// says more.
func flagUsages(flags *pflag.FlagSet) string {
	values := map[*pflag.Flag]string{}
	flags.VisitAll(func(f *pflag.Flag) { values[f], f.NoOptDefVal = f.NoOptDefVal, "" })
	defer func() {
		for f, value := range values {
			f.NoOptDefVal = value
		}
	}()
	return flags.FlagUsages()
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

// wrongKey returns why fanoutd would not write an object with this key, or nil. Other programs may have
// written one to etcd, so a wrong key is an error only where there is no such object.
func wrongKey(key string) error {
	_, err := object.ParseKey(key)
	return err
}

// wrongMissingKey returns a usage error if an object that does not exist has a wrong key.
func wrongMissingKey(key string) error {
	if err := wrongKey(key); err != nil {
		return usagef("no such object, and the key is wrong: %w", err)
	}
	return nil
}

// noteWrongKey prints a note if a watch for this key may wait forever.
func (t *tool) noteWrongKey(key string) {
	if key == "" {
		return
	}
	if err := wrongKey(key); err != nil {
		fmt.Fprintf(t.stderr, "fanoutctl: the key %v; only programs that write to etcd directly can create such an object\n", err)
	}
}
