package client_test

import (
	"fmt"
	"strings"

	"github.com/fanoutd/fanoutd/client"
)

// show returns a position in short.
func show(p client.Position) string { return fmt.Sprintf("%s/%d", p.Epoch, p.Revision) }

// line returns an update in short: "replace", events such as "+a@3", "synced" and
// the position, in brackets while it is not complete.
func line(u *client.Update) string {
	var words []string
	if u.Replace {
		words = append(words, "replace")
	}
	for _, e := range u.Events {
		sign := map[client.EventType]string{client.Added: "+", client.Modified: "*", client.Deleted: "-"}[e.Type]
		words = append(words, fmt.Sprintf("%s%s@%d", sign, e.Object.Key, e.Object.ModRevision))
	}
	if u.Synced {
		words = append(words, "synced")
	}
	position := show(u.Position)
	if !u.Complete {
		position = "[" + position + "]"
	}
	return strings.Join(append(words, position), " ")
}
