package admin

import (
	"context"
	"fmt"

	"github.com/fanoutd/fanoutd/client"
	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// Reclaimed is the result of reclaiming the space of an embedded etcd.
type Reclaimed struct {
	Server             string `json:"server"`
	BytesBefore        int64  `json:"bytesBefore"`
	Bytes              int64  `json:"bytes"`
	QuotaBytes         int64  `json:"quotaBytes"`
	CompactedRevision  int64  `json:"compactedRevision,omitempty"`
	AcceptsWritesAgain bool   `json:"acceptsWritesAgain"`
}

// ReclaimSpace frees the space of the server's embedded etcd.
func (a *Admin) ReclaimSpace(ctx context.Context, keepHistory bool) (Reclaimed, error) {
	resp, err := a.service.ReclaimSpace(ctx, &fanoutv1.ReclaimSpaceRequest{KeepHistory: keepHistory})
	if err != nil {
		return Reclaimed{}, fmt.Errorf("reclaim space: %w", client.ErrorOf(err))
	}
	return Reclaimed{
		Server: a.Server, BytesBefore: resp.GetBytesBefore(), Bytes: resp.GetBytes(), QuotaBytes: resp.GetQuotaBytes(),
		CompactedRevision: resp.GetCompactedRevision(), AcceptsWritesAgain: resp.GetAcceptsWritesAgain(),
	}, nil
}
