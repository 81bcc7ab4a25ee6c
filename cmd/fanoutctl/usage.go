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

// unknownFlagError is an unknown flag of a command. Its report shows the flags.
type unknownFlagError struct {
	error
	cmd *cobra.Command
}

func (e unknownFlagError) Unwrap() error { return e.error }

// invalidFlag returns the error of a command for flags that cannot be parsed.
func invalidFlag(cmd *cobra.Command, err error) error {
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		err = fmt.Errorf("%w%s", err, didYouMean("--", suggestedFlags(cmd, unknown.GetSpecifiedName())))
		return unknownFlagError{usageError{err}, cmd}
	}
	if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return usagef("--%s: invalid value %q (%s)", invalid.GetFlag().Name, invalid.GetValue(), wanted(invalid))
	}
	return usageError{err}
}

// wanted returns what a flag accepts, or why it refuses its value. The errors of Go's parsers name their
// functions instead.
func wanted(invalid *pflag.InvalidValueError) string {
	switch invalid.GetFlag().Value.Type() {
	case "int", "int64":
		return "want a whole number"
	case "duration":
		return "want a duration, such as 30s or 5m"
	case "bool":
		return "want true or false"
	}
	return invalid.Unwrap().Error()
}

// checkNumbers returns a usage error if a number or a duration is negative. No command has a use for one.
func checkNumbers(cmd *cobra.Command) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		switch f.Value.Type() {
		case "int", "int64", "duration":
			if strings.HasPrefix(f.Value.String(), "-") {
				err = usagef("--%s must not be negative", f.Name)
			}
		}
	})
	return err
}

// suggestedFlags returns the flags of a command whose names resemble the given one.
func suggestedFlags(cmd *cobra.Command, name string) []string {
	var names []string
	add := func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	}
	cmd.LocalNonPersistentFlags().VisitAll(add)
	cmd.InheritedFlags().VisitAll(add)
	return similar(names, name)
}

// similar returns the names that begin with a mistyped one, or else those that are closest to it, within one edit
// for three letters: without that limit, every short name is close to some other.
func similar(names []string, typed string) []string {
	typed = strings.ToLower(typed)
	var found []string
	closest := len(typed) / 3
	for _, name := range names {
		distance := edits(typed, name)
		if strings.HasPrefix(name, typed) {
			distance = 0
		}
		if distance < closest {
			closest, found = distance, nil
		}
		if distance == closest {
			found = append(found, name)
		}
	}
	return found
}

// edits returns the number of insertions, deletions, replacements and swaps of neighbours that turn a into b.
func edits(a, b string) int {
	distances := make([][]int, len(a)+1) // between the beginnings of a and b
	for i := range distances {
		distances[i] = make([]int, len(b)+1)
		distances[i][0] = i
	}
	for j := range distances[0] {
		distances[0][j] = j
	}
	for i := range len(a) {
		for j := range len(b) {
			replaced := distances[i][j]
			if a[i] != b[j] {
				replaced++
			}
			d := min(replaced, distances[i][j+1]+1, distances[i+1][j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				d = min(d, distances[i-1][j-1]+1)
			}
			distances[i+1][j+1] = d
		}
	}
	return distances[len(a)][len(b)]
}

// didYouMean returns the end of a message that proposes names, or "".
func didYouMean(prefix string, names []string) string {
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("; did you mean %s%s?", prefix, strings.Join(names, " or "+prefix))
}

// show prints how the command is used, without the flags of all commands.
func (e unknownFlagError) show(w io.Writer) {
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

// subcommandNeeded returns the usage error of a command that only groups subcommands.
func subcommandNeeded(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return usagef("%s requires a command: %s", cmd.CommandPath(), strings.Join(commandNames(cmd), ", "))
	}
	hint := didYouMean("", similar(commandNames(cmd), args[0]))
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
