package main

import (
	"fmt"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/fanoutd/fanoutd/internal/ctl/contexts"
	"github.com/fanoutd/fanoutd/internal/ctl/output"
)

func contextCommand(t *tool) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "context",
		Short: "Names for servers: list, set, use, delete",
		Long: `A context is a name for a server and the credentials for it. Contexts are kept in a
file: fanoutctl/config.yaml where the configuration of users is ($XDG_CONFIG_HOME or
~/.config), or what --config or FANOUTCTL_CONFIG says. One of them is the current one;
--context or FANOUTCTL_CONTEXT choose another for one command.`,
		Example: `  fanoutctl context set prod --server fanoutd.example.com:7420 --token-file ~/.fanoutd-token
  fanoutctl context use prod
  fanoutctl --context staging list config`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return subcommandNeeded(cmd, args) },
	}
	cmd.AddCommand(contextListCommand(t), contextSetCommand(t), contextUseCommand(t), contextDeleteCommand(t))
	return cmd
}

// shownContext is a context as it is shown in JSON and YAML.
type shownContext struct {
	Name    string `json:"name"`
	Current bool   `json:"current"`
	contexts.Settings
}

func contextListCommand(t *tool) *cobra.Command {
	var format output.Format
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the contexts",
		Args:  arguments(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			file, err := contexts.Read(t.contextsPath())
			if err != nil {
				return usageError{err}
			}
			var rows []shownContext
			for _, c := range file.Contexts {
				rows = append(rows, shownContext{c.Name, c.Name == file.Current, c.Settings})
			}
			if len(rows) == 0 && format == output.Table {
				fmt.Fprintf(t.stderr, "There are no contexts; \"fanoutctl context set\" makes one.\n")
			}
			header := []output.Column{{Title: "NAME", Style: output.Name}, {Title: "CURRENT"}, {Title: "SERVER"}, {Title: "SECURITY"}}
			return output.Records(t.writer(format), format, t.width(), header, rows, shownContext.cells)
		},
	}
	formatFlag(cmd, &format, output.Table)
	return cmd
}

func (c shownContext) cells() []string {
	current, security := "", ""
	if c.Current {
		current = "*"
	}
	for _, one := range []struct{ is, name string }{{c.CAFile + c.ServerName, "TLS"}, {c.CertFile, "certificate"}, {c.TokenFile, "token"}} {
		if one.is != "" {
			if security != "" {
				security += ", "
			}
			security += one.name
		}
	}
	if c.TLS != "" && security == "" {
		security = "tls=" + c.TLS
	}
	return []string{c.Name, current, c.Server, security}
}

func contextSetCommand(t *tool) *cobra.Command {
	return &cobra.Command{
		Use:   "set NAME",
		Short: "Make a context, or change one, of the flags that say where the server is",
		Long: `Make a context of the flags that say where a server is: --server, --tls, --ca-file,
--cert-file, --key-file, --server-name and --token-file. What an existing context has
and no flag says stays as it is. The first context becomes the current one.`,
		Args:              arguments(cobra.ExactArgs(1)),
		ValidArgsFunction: t.completeContexts,
		RunE: func(_ *cobra.Command, args []string) error {
			s := t.flags
			if s == (contexts.Settings{}) {
				return usagef("there is nothing to set; --server says where the server is")
			}
			// Commands run in other directories.
			for _, path := range []*string{&s.CAFile, &s.CertFile, &s.KeyFile, &s.TokenFile} {
				if *path != "" {
					absolute, err := filepath.Abs(*path)
					if err != nil {
						return err
					}
					*path = absolute
				}
			}
			return t.changeContexts(func(f *contexts.File) error {
				f.Set(args[0], s)
				return nil
			})
		},
	}
}

func contextUseCommand(t *tool) *cobra.Command {
	return &cobra.Command{
		Use:               "use NAME",
		Short:             "Make a context the current one",
		Args:              arguments(cobra.ExactArgs(1)),
		ValidArgsFunction: t.completeContexts,
		RunE: func(_ *cobra.Command, args []string) error {
			return t.changeContexts(func(f *contexts.File) error { return t.unknown(f, f.Use(args[0])) })
		},
	}
}

func contextDeleteCommand(t *tool) *cobra.Command {
	return &cobra.Command{
		Use:               "delete NAME",
		Short:             "Delete a context",
		Args:              arguments(cobra.ExactArgs(1)),
		ValidArgsFunction: t.completeContexts,
		RunE: func(_ *cobra.Command, args []string) error {
			return t.changeContexts(func(f *contexts.File) error { return t.unknown(f, f.Delete(args[0])) })
		},
	}
}

func (t *tool) changeContexts(change func(*contexts.File) error) error {
	file, err := contexts.Read(t.contextsPath())
	if err != nil {
		return usageError{err}
	}
	if err := change(file); err != nil {
		return err
	}
	return file.Write(t.contextsPath())
}

// unknown says which contexts there are.
func (t *tool) unknown(f *contexts.File, err error) error {
	if err == nil {
		return nil
	}
	var names []string
	for _, c := range f.Contexts {
		names = append(names, c.Name)
	}
	slices.Sort(names)
	return exitError{exitNotFound, fmt.Errorf("%w; there are %q", err, names)}
}
