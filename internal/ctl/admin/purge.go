package admin

import (
	"context"
	"fmt"

	"github.com/fanoutd/fanoutd/client"
	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// PurgeHistory removes the history of a key, except the last write, and returns how many writes it has removed.
func (a *Admin) PurgeHistory(ctx context.Context, resource, key string) (removed int64, err error) {
	resp, err := a.service.PurgeHistory(ctx, &fanoutv1.PurgeHistoryRequest{Resource: resource, Key: key})
	if err != nil {
		return 0, fmt.Errorf("purge the history of %q: %w", key, client.ErrorOf(err))
	}
	return resp.GetRemoved(), nil
}
