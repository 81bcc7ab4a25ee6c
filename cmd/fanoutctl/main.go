// Command fanoutctl is the command-line client of fanoutd. It reads, writes and watches
// objects, and shows operators the state of their servers.
//
// Most commands have a file of their own. They parse their flags and call internal/ctl, which
// does the work. The type tool holds the state that the commands share. exit.go maps errors to
// exit codes and one-line messages.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"regexp"

	"github.com/spf13/cobra"

	"github.com/fanoutd/fanoutd/internal/ctl/output"
	"github.com/fanoutd/fanoutd/internal/man"
	"github.com/fanoutd/fanoutd/internal/version"
)

func main() {
	os.Exit(run(interruptible(), os.Args[1:], os.Environ(), os.Stdin, os.Stdout, os.Stderr))
}

// run executes the command line and returns the exit code.
func run(ctx context.Context, args, environ []string, in io.Reader, stdout, stderr io.Writer) int {
	t := newTool(environ, in, stdout, stderr)
	cmd := rootCommand(t)
	cmd.SetArgs(args)
	cmd.SetOut(t.out)
	cmd.SetErr(stderr)
	ran, err := cmd.ExecuteContextC(ctx)
	t.ran, t.readsStale = ran.CommandPath(), ran.Flags().Lookup("allow-stale") != nil
	if flushed := t.out.Flush(); err == nil {
		err = flushed
	}
	t.close() // and with it all notices
	return t.report(ctx, err)
}

const rootLong = `fanoutctl reads, writes and watches objects on a fanoutd server.

A resource is a collection of objects; the server's configuration defines the resources.
An object has a key, which is a path such as shop/limits, a value, and labels.

The connection settings come from flags, environment variables and contexts, in this
order of precedence. The variable of --server, for example, is FANOUTCTL_SERVER. A
context is a named server with its credentials; see "fanoutctl context". With --context,
the variables do not count.`

const rootExample = `  # Show the resources of the server
  fanoutctl resources

  # Write and read an object
  fanoutctl put config shop/limits '{"rps": 100}'
  fanoutctl get config shop/limits

  # List all objects below shop, as YAML
  fanoutctl list config shop -o yaml

  # List all objects below shop, then follow their changes
  fanoutctl watch config shop

  # Run a command for each change
  fanoutctl watch config shop --exec ./reload

  # Write, then wait until all watchers have applied the change
  fanoutctl put config shop/limits '{"rps": 200}' --wait --timeout 1m

  # Show what an import would change
  fanoutctl import config ./backup --dry-run

  # Show resources and watchers, refreshed every second
  fanoutctl top`

func rootCommand(t *tool) *cobra.Command {
	cmd := &cobra.Command{
		Use:           "fanoutctl",
		Short:         "Read, write and watch objects on a fanoutd server",
		Long:          rootLong,
		Example:       rootExample,
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       version.Line("fanoutctl"),
		Args:          cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return subcommandNeeded(cmd, args)
			}
			return cmd.Help()
		},
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return checkNumbers(cmd) },
	}
	cmd.SetVersionTemplate("{{.Version}}\n")
	cmd.SetFlagErrorFunc(invalidFlag)
	cobra.AddTemplateFunc("flagUsages", flagUsages)
	cmd.SetUsageTemplate(regexp.MustCompile(`(\.\w+Flags)\.FlagUsages`).ReplaceAllString(cmd.UsageTemplate(), "flagUsages $1"))
	flags := cmd.PersistentFlags()
	flags.SortFlags = false
	flags.StringVar(&t.contextName, "context", "", "`name` of the context to use instead of the current one")
	bindSettings(flags, &t.flags)
	flags.StringVar(&t.configPath, "config", "", "context `file` (default ~/.config/fanoutctl/config.yaml)")
	flags.DurationVar(&t.timeout, "timeout", 0, "maximum `duration` of the command (default 30s per request; none for commands that wait or process many objects)")

	connect := func(cmd *cobra.Command, _ []string) error {
		if err := checkNumbers(cmd); err != nil {
			return err
		}
		return t.connect()
	}
	groups := []struct {
		title    string
		prepare  func(*cobra.Command, []string) error // nil: as the root
		commands []*cobra.Command
	}{
		{"Object Commands", connect, []*cobra.Command{getCommand(t), listCommand(t), describeCommand(t), historyCommand(t), watchCommand(t), putCommand(t), editCommand(t), deleteCommand(t), txnCommand(t)}},
		{"Bulk Commands", connect, []*cobra.Command{importCommand(t), exportCommand(t), diffCommand(t), validateCommand(t), copyCommand(t), rollbackCommand(t)}},
		{"Server Commands", connect, []*cobra.Command{resourcesCommand(t), watchersCommand(t), topCommand(t), waitCommand(t), benchCommand(t), reencryptCommand(t), reclaimCommand(t), clusterCommand(t)}},
		{"Other Commands", nil, []*cobra.Command{contextCommand(t), versionCommand()}},
	}
	for _, g := range groups {
		cmd.AddGroup(&cobra.Group{ID: g.title, Title: g.title + ":"})
		for _, c := range g.commands {
			c.GroupID, c.PersistentPreRunE = g.title, g.prepare
			cmd.AddCommand(c)
			t.addArguments(c)
		}
	}
	last := groups[len(groups)-1].title
	cmd.SetCompletionCommandGroupID(last)
	cmd.SetHelpCommandGroupID(last)
	cmd.AddCommand(man.Command())
	// Without this, "completion fsh" succeeds and prints the help.
	cmd.InitDefaultCompletionCmd()
	for _, c := range cmd.Commands() {
		if c.Name() == "completion" {
			c.Args, c.RunE = cobra.ArbitraryArgs, subcommandNeeded
		}
	}
	return cmd
}

// addArguments makes the usage lines of a command and its subcommands apply, unless they say otherwise.
func (t *tool) addArguments(cmd *cobra.Command) {
	if cmd.Args == nil {
		cmd.Args = checkArguments
	}
	cmd.ValidArgsFunction = t.complete
	for _, c := range cmd.Commands() {
		t.addArguments(c)
	}
}

// formatFlag adds the flag --output.
func formatFlag(cmd *cobra.Command, format *output.Format, byDefault output.Format) {
	*format = byDefault
	cmd.Flags().VarP(format, "output", "o", "output format: table, wide, json, yaml, jsonl, value, key, jsonpath=PATH or go-template=TEMPLATE")
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
		Short: "Print the version of fanoutctl",
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), version.Line("fanoutctl"))
			return err
		},
	}
}
