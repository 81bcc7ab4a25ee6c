package server

import (
	"cmp"
	"context"
	"encoding/base64"
	"strings"

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

// historyToken begins the page tokens of the records of a history. The others have no such character.
const historyToken = "history."

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
	// The records of the history follow the objects.
	token, inHistory := strings.CutPrefix(req.GetPageToken(), historyToken)
	rewrite := r.Store.Rewrite
	switch {
	case inHistory && r.History == nil:
		check.Refuse("page_token", "belongs to a server with a history of the resource")
	case inHistory:
		rewrite = r.History.Rewrite
	}
	start, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		check.Refuse("page_token", "is not a page token of this service")
	}
	if err := check.Err(); err != nil {
		return nil, err
	}
	resp := &fanoutv1.ReencryptResponse{Encrypted: r.Values.Encrypts(), PrimaryKeyId: r.Values.Primary()}
	done, err := rewrite(ctx, object.Key(start), size, min(a.rewrites, reencryptBatch))
	if err != nil {
		return nil, err
	}
	resp.LookedAt, resp.Reencrypted = int64(done.Examined), int64(done.Rewritten)
	resp.Undecryptable, resp.ChangedMeanwhile = int64(done.Undecryptable), int64(done.Contended)
	resp.Remaining = done.Remaining
	switch next := base64.RawURLEncoding.EncodeToString([]byte(done.Next)); {
	case done.More && inHistory:
		resp.NextPageToken = historyToken + next
	case done.More:
		resp.NextPageToken = next
	case !inHistory && r.History != nil:
		resp.NextPageToken = historyToken
	}
	return resp, nil
}
