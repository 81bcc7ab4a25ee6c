package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/fanoutd/fanoutd/internal/access"
)

func tokenCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Create bearer tokens",
		Args:  arguments(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			return usageError{errors.New("fanoutd token requires a command: create")}
		},
	}
	var groups []string
	create := &cobra.Command{
		Use:   "create NAME",
		Short: "Create a token and its line for the token file",
		Long: `Create a token for the client NAME. The token is printed to standard output and stored
nowhere. The line for the token file, which contains only a hash, is printed to standard
error. Append it to the file that token-file names; running servers read it within seconds.`,
		Example: `  # Create a token for the client "shop"
  fanoutd token create shop --groups readers 2>> tokens > shop.token`,
		Args: arguments(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			token, line, err := access.NewToken(args[0], groups)
			if err != nil {
				return usageError{err}
			}
			if _, err := fmt.Fprintln(cmd.ErrOrStderr(), line); err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), token)
			return err
		},
	}
	create.Flags().StringSliceVar(&groups, "groups", nil, "comma-separated `names` of the client's groups")
	cmd.AddCommand(create)
	return cmd
}
