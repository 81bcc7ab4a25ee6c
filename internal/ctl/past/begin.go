package past

import (
	"context"
	"fmt"
	"time"

	"github.com/fanoutd/fanoutd/client"
)

// Begin returns the oldest write that the history of a scope has, or nil if it has none. It reads the whole history of the
// scope, without values.
func Begin(ctx context.Context, r *client.Resource, of client.Scope) (*client.HistoryEntry, error) {
	var oldest *client.HistoryEntry
	for e, err := range r.History(ctx, of, client.HistoryPageSize(1000)) {
		if err != nil {
			return nil, err
		}
		if isWrite(e) {
			oldest = e
		}
	}
	return oldest, nil
}

// When names a write by its revision and its time, such as "revision 12, 2026-11-27T15:04:05Z".
func When(write *client.HistoryEntry) string {
	return fmt.Sprintf("revision %d, %s", write.Revision, write.Change.Time.UTC().Format(time.RFC3339))
}
