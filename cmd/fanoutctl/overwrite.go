package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/fanoutd/fanoutd/client"
)

// overwriteFlag adds the flag --overwrite-opaque to a command that writes objects.
func overwriteFlag(cmd *cobra.Command, overwrite *bool) {
	cmd.Flags().BoolVar(overwrite, "overwrite-opaque", false, "replace values that the server cannot decode; they may belong to another program")
}

// opaqueValue explains that a value was not replaced.
func opaqueValue(e *client.Error) string {
	return strings.Replace(e.Message, "set overwrite_opaque", "use --overwrite-opaque", 1)
}
