package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// The usage line of a command names its arguments, such as "list RESOURCE [PATH]". That is what they are
// checked and completed by.

// argumentsOf returns the names of the arguments, and how many of them a command needs. A last name with dots
// can be repeated. Alternatives after a bar do not count.
func argumentsOf(cmd *cobra.Command) (names []string, needed int) {
	for _, name := range strings.Fields(cmd.Use)[1:] {
		if name == "|" {
			break
		}
		optional := strings.HasPrefix(name, "[")
		if !optional {
			needed++
		}
		if names = append(names, strings.Trim(name, "[]")); optional {
			break
		}
	}
	return names, needed
}

// checkArguments returns a usage error that names what is missing or too much.
func checkArguments(cmd *cobra.Command, args []string) error {
	names, needed := argumentsOf(cmd)
	switch repeated := len(names) > 0 && strings.HasSuffix(names[len(names)-1], "..."); {
	case len(args) < needed:
		problem := "missing " + strings.Join(names[len(args):needed], " and ")
		if len(args) > 0 && names[len(args)] == "KEY" {
			problem += "; " + missingKeyHint(cmd, args[0])
		}
		return usagef("%s; usage: %s", problem, cmd.UseLine())
	case len(args) > len(names) && !repeated:
		return usagef("unexpected argument %q; usage: %s", args[len(names)], cmd.UseLine())
	}
	return nil
}

// missingKeyHint returns what to run if a resource, but no key, is given.
func missingKeyHint(cmd *cobra.Command, resource string) string {
	if name, key, both := strings.Cut(resource, "/"); both && key != "" {
		return fmt.Sprintf(`a resource and a key are two arguments: run "%s %s %s"`, cmd.CommandPath(), name, key)
	}
	return fmt.Sprintf(`to see the keys, run "fanoutctl list %s"`, resource)
}
