package server

import (
	"context"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/access/policy"
	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/history"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/apierr"
	"github.com/fanoutd/fanoutd/internal/server/backend"
	"github.com/fanoutd/fanoutd/internal/server/quota"
	"github.com/fanoutd/fanoutd/internal/server/request"
)

// History implements FanoutService.
func (f *fanout) History(ctx context.Context, req *fanoutv1.HistoryRequest) (*fanoutv1.HistoryResponse, error) {
	target := request.ParseTarget(req)
	if err := f.rights.MayRead(ctx, policy.History, target); err != nil {
		return nil, err
	}
	resource, err := withHistory(f.resources, target.Resource)
	if err != nil {
		return nil, err
	}
	asked, err := request.ParseHistory(target, req, resource.Codec)
	if err != nil {
		return nil, err
	}
	// A page with values needs as much memory as one of a List.
	memory := f.limits.ReserveList(ctx, maxListBytes)
	if !memory.Granted() {
		if err := f.limits.AwaitList(ctx, memory); err != nil {
			return nil, err
		}
	}
	defer release(memory)
	reader := resource.History.Reader
	if asked.Time != nil {
		if asked.Query.From.Upto, err = reader.At(ctx, *asked.Time); err != nil {
			return nil, err
		}
		if asked.Query.From.Upto == 0 {
			return &fanoutv1.HistoryResponse{}, nil
		}
	}
	asked.Query.MaxBytes = maxListBytes
	page, err := reader.Page(ctx, asked.Query)
	if err != nil {
		return nil, err
	}
	// Every present write would count as one before a revision that does not exist yet, and what is written
	// meanwhile, too.
	if upto := asked.Query.From.Upto; upto > page.At {
		return nil, &cacher.FutureError{Asked: upto, Current: page.At}
	}
	resp := &fanoutv1.HistoryResponse{Revision: int64(asked.Query.From.Upto)}
	if page.More {
		resp.NextPageToken = request.HistoryToken(target, page.Next)
	}
	bytes := 0
	for i := range page.Entries {
		entry, err := protoEntry(resource.Codec, asked.Projection, &page.Entries[i])
		if err != nil {
			return nil, err
		}
		// A replaced value comes on top of the size that the page was made for.
		if bytes += proto.Size(entry); bytes > maxReturnedBytes && i > 0 {
			entry.Object = nil
		}
		resp.Entries = append(resp.Entries, entry)
	}
	return resp, f.limits.ReserveAnswer(ctx, bytes)
}

func release(memory *quota.Reservation) {
	if memory != nil {
		memory.Release()
	}
}

// withHistory returns the resource with the name, which has a history.
func withHistory(resources backend.Resources, name string) (*backend.Resource, error) {
	resource, err := resources.Find(name)
	if err == nil && resource.History == nil {
		err = apierr.ErrNoHistory
	}
	return resource, err
}

var entryKinds = map[history.EntryKind]fanoutv1.HistoryEntry_Kind{
	history.Written: fanoutv1.HistoryEntry_KIND_PUT,
	history.Deleted: fanoutv1.HistoryEntry_KIND_DELETE,
	history.Expired: fanoutv1.HistoryEntry_KIND_EXPIRED,
	history.Gap:     fanoutv1.HistoryEntry_KIND_GAP,
	history.Earlier: fanoutv1.HistoryEntry_KIND_EARLIER,
}

// protoEntry returns an entry as a message of the protocol.
func protoEntry(codec object.Codec, values object.Projection, e *history.Entry) (*fanoutv1.HistoryEntry, error) {
	entry := &fanoutv1.HistoryEntry{
		Kind: entryKinds[e.Kind], Key: string(e.Key), Revision: int64(e.Revision), Author: e.Author, Message: e.Message,
		ReplacedRevision: int64(e.Replaced), TransactionWrites: int32(e.Writes), HasTtl: e.HasTTL,
	}
	if !e.Time.IsZero() {
		entry.Time = timestamppb.New(e.Time)
	}
	if e.Value == nil && e.Lost == nil {
		return entry, nil
	}
	r := object.Record{Key: e.Key, ModRevision: e.Revision, Undecryptable: e.Lost}
	if e.Value != nil {
		r.Value = *e.Value
	}
	var err error
	entry.Object, err = protoObject(codec, values, &r)
	return entry, err
}

// appendLastChange appends the last change of an object to the response of a Get.
func appendLastChange(ctx context.Context, r *backend.Resource, o *object.Object, b []byte) ([]byte, error) {
	if r.History == nil {
		return b, nil
	}
	last, err := r.History.Reader.Last(ctx, o.Key, o.ModRevision)
	if err != nil || last == nil {
		return b, err
	}
	return proto.MarshalOptions{}.MarshalAppend(b, &fanoutv1.GetResponse{LastChange: &fanoutv1.LastChange{
		Author: last.Author, Time: timestamppb.New(last.Time), Message: last.Message,
	}})
}

// PurgeHistory implements AdminService.
func (a *admin) PurgeHistory(ctx context.Context, req *fanoutv1.PurgeHistoryRequest) (*fanoutv1.PurgeHistoryResponse, error) {
	if err := a.rights.May(ctx, policy.Purge, req.GetResource(), object.ExactKey(object.Key(req.GetKey()))); err != nil {
		return nil, err
	}
	if a.rewrites == 0 {
		return nil, errWritesOff
	}
	resource, err := withHistory(a.resources, req.GetResource())
	if err != nil {
		return nil, err
	}
	key, err := request.ParsePurgeHistory(req)
	if err != nil {
		return nil, err
	}
	removed, err := resource.History.Reader.Purge(ctx, key)
	if err != nil {
		return nil, err
	}
	return &fanoutv1.PurgeHistoryResponse{Removed: int64(removed)}, nil
}
