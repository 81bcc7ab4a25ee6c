// Command fanoutctl reads, writes and watches the objects of a fanoutd, and shows
// its operators how it does.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fanoutd/fanoutd/internal/ctl/output"
	"github.com/fanoutd/fanoutd/internal/version"
)

func main() {
	os.Exit(run(stoppable(), os.Args[1:], os.Environ(), os.Stdin, os.Stdout, os.Stderr))
}

// run is the whole command, apart from what belongs to the process.
func run(ctx context.Context, args, environ []string, in io.Reader, stdout, stderr io.Writer) int {
	t := newTool(environ, in, stdout, stderr)
	defer t.close()
	cmd := rootCommand(t)
	cmd.SetArgs(args)
	cmd.SetOut(t.out)
	cmd.SetErr(stderr)
	err := cmd.ExecuteContext(ctx)
	if flushed := t.out.Flush(); err == nil {
		err = flushed
	}
	return t.report(ctx, err)
}

const about = `fanoutctl reads, writes and watches the objects of a fanoutd.

A resource is a collection of objects that the server is configured with. An object
has a key, which is a path such as shop/limits, a value, and labels.

Where the server is, and who you are, is said by flags, by variables, or by a context:
a name for a server that "fanoutctl context set" keeps in a file. A flag wins over a
variable, a variable over the context. --server, for example, is FANOUTCTL_SERVER.`

const examples = `  fanoutctl resources                                  what the server has
  fanoutctl put config shop/limits '{"rps": 100}'      write
  fanoutctl get config shop/limits                     read
  fanoutctl list config shop -o yaml                   everything below shop
  fanoutctl watch config shop                          the same, and every change
  fanoutctl watch config shop --exec ./reload          a command for each change
  fanoutctl import config ./backup --dry-run           what an import would do
  fanoutctl top                                        who watches, and who is behind`

func rootCommand(t *tool) *cobra.Command {
	cmd := &cobra.Command{
		Use:           "fanoutctl",
		Short:         "Read, write and watch the objects of a fanoutd",
		Long:          about,
		Example:       examples,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          arguments(cobra.NoArgs),
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	flags := cmd.PersistentFlags()
	flags.SortFlags = false
	flags.StringVar(&t.contextName, "context", "", "`name` of the context to use instead of the current one")
	bind(flags, &t.flags)
	flags.StringVar(&t.configPath, "config", "", "`file` that has the contexts; default fanoutctl/config.yaml where the configuration of users is")
	flags.DurationVar(&t.timeout, "timeout", 0, "how `long` the command may take; default 30s, and no limit for those that wait or move many objects")

	groups := []struct {
		title    string
		commands []*cobra.Command
	}{
		{"Objects", []*cobra.Command{getCommand(t), listCommand(t), watchCommand(t), putCommand(t), editCommand(t), deleteCommand(t)}},
		{"Many objects", []*cobra.Command{importCommand(t), exportCommand(t), diffCommand(t)}},
		{"Servers", []*cobra.Command{resourcesCommand(t), watchersCommand(t), topCommand(t), benchCommand(t), reencryptCommand(t)}},
		{"This command", []*cobra.Command{contextCommand(t), versionCommand()}},
	}
	for _, g := range groups {
		cmd.AddGroup(&cobra.Group{ID: g.title, Title: g.title + ":"})
		for _, c := range g.commands {
			c.GroupID = g.title
			cmd.AddCommand(c)
		}
	}
	last := groups[len(groups)-1].title
	cmd.SetCompletionCommandGroupID(last)
	cmd.SetHelpCommandGroupID(last)
	return cmd
}

// arguments makes a mistake in the arguments one in usage, and says how the command
// is called.
func arguments(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return usageError{fmt.Errorf("%w; it is called as: %s", err, cmd.UseLine())}
		}
		return nil
	}
}

// subcommandNeeded is for commands that do nothing by themselves.
func subcommandNeeded(cmd *cobra.Command, args []string) error {
	var names []string
	for _, c := range cmd.Commands() {
		names = append(names, c.Name())
	}
	if len(args) > 0 {
		return usagef("%s has no command %q, but %s", cmd.CommandPath(), args[0], strings.Join(names, ", "))
	}
	return usagef("%s needs a command: %s", cmd.CommandPath(), strings.Join(names, ", "))
}

// formatFlag adds -o.
func formatFlag(cmd *cobra.Command, format *output.Format, otherwise output.Format) {
	*format = otherwise
	cmd.Flags().VarP(format, "output", "o", "format: table, wide, json, yaml, jsonl, value or key")
	_ = cmd.RegisterFlagCompletionFunc("output", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		var names []string
		for _, f := range output.Formats {
			names = append(names, string(f))
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	})
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  arguments(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), version.Line("fanoutctl"))
			return err
		},
	}
}
