// Command fanouttest runs a server in memory, for tests of programs that use a client. It obeys commands
// on standard input, and ends with it.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"

	"github.com/spf13/cobra"

	"github.com/fanoutd/fanoutd/internal/man"
	"github.com/fanoutd/fanoutd/internal/testserver"
	"github.com/fanoutd/fanoutd/internal/version"
)

const long = `fanouttest runs a server for tests. It is fanoutd with a store in memory instead of etcd, and
listens in plaintext on a free port of 127.0.0.1.

It prints its address as a line of JSON. Each line of standard input is a command, and has one line
as its answer: {}, or {"error": "…"}. The program ends when standard input ends, so it does not
outlive the test that has started it.

  {"command": "cut_connections"}   cut all connections
  {"command": "stop"}              cut them, and refuse others
  {"command": "start"}             accept connections after stop
  {"command": "refuse", "code": "UNAVAILABLE", "reason": "NOT_READY"}
                                   answer all requests with this error
  {"command": "accept"}            serve requests after refuse
  {"command": "expire_positions"}  forget the history: no watch can resume
  {"command": "new_epoch"}         have the same objects with other revisions, as after a restore
  {"command": "stop_etcd"}         make etcd unreachable for the server
  {"command": "start_etcd"}        make it reachable again`

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run executes the command line and returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	cmd := rootCommand()
	cmd.SetArgs(args)
	cmd.SetIn(stdin)
	cmd.SetOut(stdout)
	cmd.SetErr(stderr)
	if err := cmd.ExecuteContext(ctx); err != nil {
		fmt.Fprintf(stderr, "fanouttest: %v\n", err)
		return 1
	}
	return 0
}

func rootCommand() *cobra.Command {
	var resources []string
	cmd := &cobra.Command{
		Use:           "fanouttest",
		Short:         "Run a server in memory, for tests",
		Long:          long,
		Version:       version.Line("fanouttest"),
		Args:          cobra.NoArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return serve(resources, cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	cmd.SetVersionTemplate("{{.Version}}\n")
	cmd.CompletionOptions.HiddenDefaultCmd = true
	cmd.Flags().StringSliceVar(&resources, "resource", []string{"config"}, "name of a resource; may be repeated")
	cmd.AddCommand(versionCommand(), man.Command())
	return cmd
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of fanouttest",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), version.Line("fanouttest"))
			return err
		},
	}
}

// serve runs a server until its input ends.
func serve(resources []string, stdin io.Reader, stdout io.Writer) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("open a port: %w", err)
	}
	s := testserver.New(listener, resources...)
	defer s.Close()
	started := struct {
		Address string `json:"address"`
	}{listener.Addr().String()}
	if err := json.NewEncoder(stdout).Encode(started); err != nil {
		return fmt.Errorf("print the address: %w", err)
	}
	return s.Obey(stdin, stdout)
}
