package main

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fanoutd/fanoutd/client/localfile"
	"github.com/fanoutd/fanoutd/internal/ctl/output"
)

func contextCommand(t *tool) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "context",
		Short: "Manage contexts: named servers with their credentials",
		Long: `Manage contexts. A context is a name for a server and its credentials.

Contexts are stored in $XDG_CONFIG_HOME/fanoutctl/config.yaml (by default
~/.config/fanoutctl/config.yaml). Use --config or FANOUTCTL_CONFIG to choose another file.
Commands use the current context; --context or FANOUTCTL_CONTEXT overrides it. Variables
such as FANOUTCTL_SERVER override single settings of a context, but not of one that
--context chooses; flags always do.`,
		Example: `  # Add a context and make it the current one
  fanoutctl context set prod --server fanoutd.example.com:7420 --token-file ~/.fanoutd-token
  fanoutctl context use prod

  # Use another context for one command
  fanoutctl --context staging list config`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return subcommandNeeded(cmd, args) },
	}
	cmd.AddCommand(contextListCommand(t), contextCurrentCommand(t), contextSetCommand(t), contextUseCommand(t), contextDeleteCommand(t))
	return cmd
}

func contextCurrentCommand(t *tool) *cobra.Command {
	return &cobra.Command{
		Use:   "current",
		Short: "Print the name of the context that commands use",
		Long: `Print the name of the context that commands use: that of --context, of FANOUTCTL_CONTEXT, or the
current one of the context file. The exit code is 3 if there is none.`,
		RunE: func(*cobra.Command, []string) error {
			file, err := readContexts(t.contextsPath())
			if err != nil {
				return usageError{err}
			}
			c, err := file.get(cmp.Or(t.contextName, t.vars[envPrefix+"CONTEXT"]))
			if err != nil {
				return listContexts(file, err)
			}
			if c.Name == "" {
				return fmt.Errorf(`current context %w; use "fanoutctl context use" to choose one`, errNotFound)
			}
			fmt.Fprintln(t.out, c.Name)
			return nil
		},
	}
}

// contextRow is a context as shown by "context list".
type contextRow struct {
	Name    string `json:"name"`
	Current bool   `json:"current"`
	connection
}

func contextListCommand(t *tool) *cobra.Command {
	var format output.Format
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the contexts",
		RunE: func(*cobra.Command, []string) error {
			file, err := readContexts(t.contextsPath())
			if err != nil {
				return usageError{err}
			}
			var rows []contextRow
			for _, c := range file.Contexts {
				rows = append(rows, contextRow{c.Name, c.Name == file.Current, c.Connection})
			}
			if len(rows) == 0 && format == output.Table {
				fmt.Fprintln(t.stderr, `No contexts found; use "fanoutctl context set" to add one.`)
			}
			return output.Records(t.printer(format), contextColumns, rows)
		},
	}
	formatFlag(cmd, &format, output.Table)
	return cmd
}

var contextColumns = []output.Column[contextRow]{
	{Title: "NAME", Cell: func(c contextRow) string { return c.Name }, Style: output.Name},
	{Title: "CURRENT", Cell: contextRow.mark},
	{Title: "SERVER", Cell: func(c contextRow) string { return c.Server }},
	{Title: "SECURITY", Cell: contextRow.security},
}

func (c contextRow) mark() string {
	if c.Current {
		return "*"
	}
	return ""
}

func (c contextRow) security() string {
	var all []string
	for _, s := range []struct{ setting, label string }{{c.CAFile + c.ServerName, "TLS"}, {c.CertFile, "certificate"}, {c.TokenFile, "token"}} {
		if s.setting != "" {
			all = append(all, s.label)
		}
	}
	if c.TLS != "" && all == nil {
		return "tls=" + c.TLS
	}
	return strings.Join(all, ", ")
}

func contextSetCommand(t *tool) *cobra.Command {
	return &cobra.Command{
		Use:   "set NAME",
		Short: "Create or update a context",
		Long: `Create or update a context from the connection flags: --server, --tls, --ca-file,
--cert-file, --key-file, --server-name and --token-file. Settings of an existing context
without a matching flag stay as they are. The first context becomes the current one.`,
		RunE: func(_ *cobra.Command, args []string) error {
			c := t.flags
			if c == (connection{}) {
				return usagef("nothing to set; set at least --server")
			}
			// Later commands may run in other directories.
			for _, path := range []*string{&c.CAFile, &c.CertFile, &c.KeyFile, &c.TokenFile} {
				if *path != "" {
					absolute, err := filepath.Abs(*path)
					if err != nil {
						return err
					}
					*path = absolute
				}
			}
			return t.changeContexts(func(f *contextFile) (string, error) {
				return fmt.Sprintf("Context %q %s.%s", args[0], f.set(args[0], c), f.describeCurrent()), nil
			})
		},
	}
}

func contextUseCommand(t *tool) *cobra.Command {
	return contextChange(t, "use NAME", "Make a context the current one", func(f *contextFile, name string) (string, error) {
		return fmt.Sprintf("%q is now the current context.", name), f.use(name)
	})
}

func contextDeleteCommand(t *tool) *cobra.Command {
	return contextChange(t, "delete NAME", "Delete a context", func(f *contextFile, name string) (string, error) {
		err := f.remove(name)
		return fmt.Sprintf("Context %q deleted.%s", name, f.describeCurrent()), err
	})
}

// contextChange returns a command that changes the context file, for the context of its argument.
func contextChange(t *tool, use, short string, change func(f *contextFile, name string) (string, error)) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short,
		RunE: func(_ *cobra.Command, args []string) error {
			return t.changeContexts(func(f *contextFile) (string, error) {
				message, err := change(f, args[0])
				return message, listContexts(f, err)
			})
		},
	}
}

// changeContexts reads the context file, applies change, writes the file, and prints the message that
// change returns to standard error.
func (t *tool) changeContexts(change func(*contextFile) (string, error)) error {
	// Contexts may be read from a named pipe, but not written to one.
	if err := localfile.Check(t.contextsPath()); err != nil {
		return usageError{fmt.Errorf("cannot write contexts: %w", err)}
	}
	file, err := readContexts(t.contextsPath())
	if err != nil {
		return usageError{err}
	}
	message, err := change(file)
	if err != nil {
		return err
	}
	if err := file.write(t.contextsPath()); err != nil {
		return err
	}
	fmt.Fprintln(t.stderr, message)
	return nil
}

// listContexts adds the names of the existing contexts to an error about an unknown one.
func listContexts(f *contextFile, err error) error {
	if err == nil {
		return nil
	}
	return exitError{exitNotFound, fmt.Errorf("%w (contexts: %s)", err, strings.Join(f.names(), ", "))}
}
