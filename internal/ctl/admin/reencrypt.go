package admin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fanoutd/fanoutd/client"
	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// Reencrypted says what was done to have the values of a resource stored as they should
// be.
type Reencrypted struct {
	Resource      string `json:"resource"`
	Complete      bool   `json:"complete"` // all objects were looked at
	Objects       int64  `json:"objects"`  // so many were
	Reencrypted   int64  `json:"reencrypted"`
	Undecryptable int64  `json:"undecryptable"`
	Changed       int64  `json:"changedMeanwhile"`
	Remaining     int64  `json:"remaining"` // about so many were not
	Encrypted     bool   `json:"encrypted"`
	PrimaryKey    uint32 `json:"primaryKeyId,omitempty"`
}

// ErrKeyChanged says that values were to be encrypted with another key on one page than
// on those before.
var ErrKeyChanged = errors.New("the primary key has changed, or another server has answered that has another one")

// maxReencryptPage is how many objects are looked at with one request. It takes a
// second or so with very large ones.
const maxReencryptPage = 200

// pageTime is how long the server may take for that.
const pageTime = 30 * time.Second

// Reencrypt has the values of a resource stored as they should be, at most rate of them
// in a second on average; 0: as fast as it goes. It tells done what was done whenever
// that is more. When ctx ends, what is under way is still finished, and the cause of ctx
// is returned.
func (a *Admin) Reencrypt(ctx context.Context, resource string, rate int, done func(*Reencrypted)) (*Reencrypted, error) {
	all := &Reencrypted{Resource: resource}
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
		done(all)
		if req.PageToken = resp.GetNextPageToken(); req.PageToken == "" {
			all.Complete = true
			return all, nil
		}
		if rate > 0 {
			due := time.Duration(resp.GetReencrypted()) * time.Second / time.Duration(rate)
			wait(ctx, due-time.Since(began))
		}
	}
}

// page does a part of the work. It is not broken off, or else nobody would know what
// was done.
func (a *Admin) page(ctx context.Context, req *fanoutv1.ReencryptRequest) (*fanoutv1.ReencryptResponse, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	finish, cancel := context.WithTimeout(context.WithoutCancel(ctx), pageTime)
	defer cancel()
	resp, err := a.service.Reencrypt(finish, req)
	if err != nil {
		return nil, fmt.Errorf("reencrypt %s: %w", req.GetResource(), client.ErrorOf(err))
	}
	return resp, nil
}

func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
