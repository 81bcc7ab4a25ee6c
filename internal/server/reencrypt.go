package server

import (
	"cmp"
	"context"
	"encoding/base64"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/access/policy"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/request"
)

const (
	reencryptPage    = 500
	maxReencryptPage = 1000

	// reencryptBatch is the maximum number of objects in a transaction, and so the number
	// of events that watches get at once.
	reencryptBatch = 16
)

// errWritesOff has the code that gRPC uses for a missing service.
var errWritesOff = status.Error(codes.Unimplemented, "writes are disabled: the setting writes is false")

// Reencrypt implements AdminService.
func (a *admin) Reencrypt(ctx context.Context, req *fanoutv1.ReencryptRequest) (*fanoutv1.ReencryptResponse, error) {
	if err := a.rights.May(ctx, policy.Admin, req.GetResource(), object.Scope{}); err != nil {
		return nil, err
	}
	if a.rewrites == 0 {
		return nil, errWritesOff
	}
	r, err := a.resources.Find(req.GetResource())
	if err != nil {
		return nil, err
	}
	var check request.Checker
	size := cmp.Or(check.PageSize("page_size", req.GetPageSize(), maxReencryptPage), reencryptPage)
	start, err := base64.RawURLEncoding.DecodeString(req.GetPageToken())
	if err != nil {
		check.Refuse("page_token", "is not a page token of this service")
	}
	if err := check.Err(); err != nil {
		return nil, err
	}
	resp := &fanoutv1.ReencryptResponse{Encrypted: r.Values.Encrypts(), PrimaryKeyId: r.Values.Primary()}
	done, err := r.Store.Rewrite(ctx, object.Key(start), size, min(a.rewrites, reencryptBatch))
	if err != nil {
		return nil, err
	}
	resp.LookedAt, resp.Reencrypted = int64(done.Examined), int64(done.Rewritten)
	resp.Undecryptable, resp.ChangedMeanwhile = int64(done.Undecryptable), int64(done.Contended)
	resp.Remaining = done.Remaining
	if done.More {
		resp.NextPageToken = base64.RawURLEncoding.EncodeToString([]byte(done.Next))
	}
	return resp, nil
}
