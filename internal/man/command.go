// Package man writes the manual pages of a program, from the definitions of its commands.
package man

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// Command returns the hidden command "man DIRECTORY", which writes one page for each command
// of the program. The variable SOURCE_DATE_EPOCH sets the date of the pages.
func Command() *cobra.Command {
	return &cobra.Command{
		Use:    "man DIRECTORY",
		Short:  "Write the manual pages into a directory",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return fmt.Errorf("cannot create the directory of the manual pages: %w", err)
			}
			root := cmd.Root()
			root.DisableAutoGenTag = true // it contains the date on which the page was made
			header := &doc.GenManHeader{Section: "1", Source: root.Name(), Manual: root.Name()}
			if err := doc.GenManTree(root, header, args[0]); err != nil {
				return fmt.Errorf("cannot write the manual pages: %w", err)
			}
			return nil
		},
	}
}
