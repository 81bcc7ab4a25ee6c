package admin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fanoutd/fanoutd/client"
	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/backoff"
)

// Reencryption is the progress of reencrypting a resource. Watchers see each rewritten
// object as modified.
type Reencryption struct {
	Resource      string `json:"resource"`
	Complete      bool   `json:"complete"` // all objects have been checked
	Objects       int64  `json:"objects"`  // number of checked objects
	Reencrypted   int64  `json:"reencrypted"`
	Undecryptable int64  `json:"undecryptable"`
	Changed       int64  `json:"changedMeanwhile"`
	Remaining     int64  `json:"remaining"` // about how many objects are left
	Encrypted     bool   `json:"encrypted"`
	PrimaryKey    uint32 `json:"primaryKeyId,omitempty"`
}

// ErrKeyChanged is returned if the server's primary key differs between two pages.
var ErrKeyChanged = errors.New("the primary key has changed, or another server with another key has answered")

// maxReencryptPage is the number of objects per request. Very large objects take about a
// second per page.
const maxReencryptPage = 200

// pageTimeout limits a request.
const pageTimeout = 30 * time.Second

// Reencrypt rewrites the values of a resource that are not stored with the server's current
// encryption, on average at most rate per second (0: no limit). It calls progress after each
// page. If ctx ends, Reencrypt finishes the current page and returns the cause of ctx.
func (a *Admin) Reencrypt(ctx context.Context, resource string, rate int, progress func(*Reencryption)) (*Reencryption, error) {
	all := &Reencryption{Resource: resource}
	size := maxReencryptPage
	if rate > 0 {
		size = min(size, max(1, rate/5))
	}
	req := &fanoutv1.ReencryptRequest{Resource: resource, PageSize: int32(size)}
	for first := true; ; first = false {
		began := time.Now()
		resp, err := a.page(ctx, req)
		if err != nil {
			return all, err
		}
		if !first && (resp.GetPrimaryKeyId() != all.PrimaryKey || resp.GetEncrypted() != all.Encrypted) {
			return all, ErrKeyChanged
		}
		all.Encrypted, all.PrimaryKey = resp.GetEncrypted(), resp.GetPrimaryKeyId()
		all.Objects += resp.GetLookedAt()
		all.Reencrypted += resp.GetReencrypted()
		all.Undecryptable += resp.GetUndecryptable()
		all.Changed += resp.GetChangedMeanwhile()
		all.Remaining = resp.GetRemaining()
		progress(all)
		if req.PageToken = resp.GetNextPageToken(); req.PageToken == "" {
			all.Complete = true
			return all, nil
		}
		if rate > 0 {
			due := time.Duration(resp.GetReencrypted()) * time.Second / time.Duration(rate)
			backoff.Sleep(ctx, due-time.Since(began))
		}
	}
}

// page processes one page. It does not stop when ctx ends, because the counts of the page
// would be lost.
func (a *Admin) page(ctx context.Context, req *fanoutv1.ReencryptRequest) (*fanoutv1.ReencryptResponse, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	finish, cancel := context.WithTimeout(context.WithoutCancel(ctx), pageTimeout)
	defer cancel()
	resp, err := a.service.Reencrypt(finish, req)
	if err != nil {
		return nil, fmt.Errorf("reencrypt %s: %w", req.GetResource(), client.ErrorOf(err))
	}
	return resp, nil
}
