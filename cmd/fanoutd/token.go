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
		Short: "Make tokens for callers",
		Args:  noArguments,
		RunE: func(*cobra.Command, []string) error {
			return usageError{errors.New("fanoutd token needs a command: create")}
		},
	}
	var groups []string
	create := &cobra.Command{
		Use:   "create NAME",
		Short: "Make a token and the line for the file of tokens",
		Long: `Make a token for the caller with this name. The token goes to standard output, once: it
is kept nowhere. The line that makes it known goes to standard error: add it to the
file that the setting token-file names, and the servers know it within seconds.`,
		Example: `  fanoutd token create shop --groups readers 2>> tokens > shop.token`,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := cobra.ExactArgs(1)(cmd, args); err != nil {
				return usageError{err}
			}
			return nil
		},
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
	create.Flags().StringSliceVar(&groups, "groups", nil, "`names` of the groups that the caller belongs to, with commas between them")
	cmd.AddCommand(create)
	return cmd
}
