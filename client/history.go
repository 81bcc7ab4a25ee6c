package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// Because returns the same resource for writes with a message: why they are made. The history of the
// resource keeps it, with the name of the writer and the time. A server refuses messages of more than
// 1024 bytes.
func (r *Resource) Because(message string) *Resource {
	because := *r
	because.message = message
	return &because
}

// Change is who made a write, when and why.
type Change struct {
	// Author is the name of the writer; empty if it was anonymous.
	Author string
	// Time is the time of the write, by the clock of the server.
	Time time.Time
	// Message is why, in the words of the writer.
	Message string
}

// LastChange makes [Resource.Get] set [Object.LastChange]. The caller needs the right "history" to the
// object as well. A resource without a history is no error.
func LastChange() ReadOption { return lastChange{} }

type lastChange struct{}

func (lastChange) get(req *fanoutv1.GetRequest) { req.LastChange = true }

// HistoryKind is the kind of a [HistoryEntry]. Servers may add kinds.
type HistoryKind int

// The kinds of entries. Only the first two are writes through fanoutd.
const (
	// HistoryPut is a write.
	HistoryPut HistoryKind = iota + 1
	// HistoryDelete is a deletion.
	HistoryDelete
	// HistoryExpired is the end of the time to live of an object.
	HistoryExpired
	// HistoryGap is where another program wrote the key in etcd.
	HistoryGap
	// HistoryEarlier is an object that is older than the history of its key.
	HistoryEarlier
)

// String returns the name of the kind, such as "put".
func (k HistoryKind) String() string {
	switch k {
	case HistoryPut:
		return "put"
	case HistoryDelete:
		return "delete"
	case HistoryExpired:
		return "expired"
	case HistoryGap:
		return "gap"
	case HistoryEarlier:
		return "earlier"
	}
	return fmt.Sprintf("HistoryKind(%d)", int(k))
}

// HistoryEntry is one entry of a history.
type HistoryEntry struct {
	Kind HistoryKind
	Key  string
	// Revision is the revision of the write. Of a gap and of an earlier object it is the ModRevision, or
	// 0 if that is not known; of an expiry it is 0.
	Revision int64
	// Change is set for writes only.
	Change
	// ReplacedRevision is the ModRevision before the write; 0 if there was no object.
	ReplacedRevision int64
	// TransactionWrites is the number of keys that the transaction of the write has written.
	TransactionWrites int
	// HasTTL says that the object has a time to live.
	HasTTL bool
	// Object is the object as it was written, if the option [HistoryValues] is set and the history has
	// it. CreateRevision and Version are 0.
	Object *Object
}

// HistoryOption is an option of [Resource.History].
type HistoryOption interface {
	history(*historyConfig)
}

// historyConfig is a history as its options describe it.
type historyConfig struct {
	req      *fanoutv1.HistoryRequest // without where the history begins
	upTo     *fanoutv1.HistoryRequest_Revision
	at       *fanoutv1.HistoryRequest_Time
	pageSize int
}

// request returns the request of the first page, or which options cannot be.
func (c *historyConfig) request() (*fanoutv1.HistoryRequest, error) {
	switch {
	case c.upTo != nil && c.at != nil:
		return nil, errors.New("HistoryUpTo and HistoryAt exclude each other")
	case c.pageSize < 0:
		return nil, fmt.Errorf("HistoryPageSize(%d), want at least 0", c.pageSize)
	case c.upTo != nil:
		c.req.Begin = c.upTo
	case c.at != nil:
		c.req.Begin = c.at
	}
	c.req.PageSize = int32(min(c.pageSize, 1000))
	return c.req, nil
}

// HistoryUpTo begins with the newest write that has this revision or an earlier one. A history with HistoryUpTo and
// [HistoryAt] is an error.
func HistoryUpTo(revision int64) HistoryOption {
	return historyOption(func(c *historyConfig) { c.upTo = &fanoutv1.HistoryRequest_Revision{Revision: revision} })
}

// HistoryAt begins with the newest write of the resource at a time or before it.
func HistoryAt(t time.Time) HistoryOption {
	return historyOption(func(c *historyConfig) { c.at = &fanoutv1.HistoryRequest_Time{Time: timestamppb.New(t)} })
}

// HistoryValues makes the entries have objects.
func HistoryValues() HistoryOption {
	return historyOption(func(c *historyConfig) { c.req.Values = true })
}

// HistoryPageSize sets how many writes one request fetches: at most 1000. 0 means the default: 100. A negative number is
// an error.
func HistoryPageSize(writes int) HistoryOption {
	return historyOption(func(c *historyConfig) { c.pageSize = writes })
}

type historyOption func(*historyConfig)

func (o historyOption) history(c *historyConfig) { o(c) }

// History returns the writes to an object, to the objects below a path, or (with nil) to all of them, newest first.
// It fetches them in pages while the caller iterates. An error is the last value of the iteration; it is
// [ErrNoHistory] if the resource has no history. The caller needs the right "history".
func (r *Resource) History(ctx context.Context, of Scope, opts ...HistoryOption) iter.Seq2[*HistoryEntry, error] {
	return func(yield func(*HistoryEntry, error) bool) {
		config := historyConfig{req: &fanoutv1.HistoryRequest{Resource: r.name, JsonValues: r.jsonValues}}
		if of != nil {
			config.req.Scope = of.message()
		}
		for _, o := range opts {
			o.history(&config)
		}
		req, err := config.request()
		if err != nil {
			yield(nil, fmt.Errorf("history: %w", err))
			return
		}
		for {
			resp, err := r.historyPage(ctx, req)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, e := range resp.GetEntries() {
				if !yield(historyEntryOf(e), nil) {
					return
				}
			}
			if req.PageToken = resp.GetNextPageToken(); req.PageToken == "" {
				return
			}
		}
	}
}

// RevisionAt returns the revision that a time means: that of the last write of the resource at the time or
// before it. It is the same for every scope, and 0 if the history has no such write. The caller needs the right
// "history" to the scope; nil is the whole resource.
func (r *Resource) RevisionAt(ctx context.Context, of Scope, t time.Time) (int64, error) {
	req := &fanoutv1.HistoryRequest{
		Resource: r.name, PageSize: 1, Begin: &fanoutv1.HistoryRequest_Time{Time: timestamppb.New(t)},
	}
	if of != nil {
		req.Scope = of.message()
	}
	resp, err := r.historyPage(ctx, req)
	return resp.GetRevision(), err
}

func (r *Resource) historyPage(ctx context.Context, req *fanoutv1.HistoryRequest) (*fanoutv1.HistoryResponse, error) {
	if err := checkUTF8(req); err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	resp, err := r.client.reads.History(ctx, req)
	if err != nil {
		return nil, fmt.Errorf("history: %w", errorOf(err))
	}
	return resp, nil
}

func historyEntryOf(e *fanoutv1.HistoryEntry) *HistoryEntry {
	entry := &HistoryEntry{
		Kind: HistoryKind(e.GetKind()), Key: e.GetKey(), Revision: e.GetRevision(), ReplacedRevision: e.GetReplacedRevision(),
		TransactionWrites: int(e.GetTransactionWrites()), HasTTL: e.GetHasTtl(), Object: objectOf(e.GetObject()),
		Change: Change{Author: e.GetAuthor(), Message: e.GetMessage()},
	}
	if e.GetTime() != nil {
		entry.Change.Time = e.GetTime().AsTime()
	}
	return entry
}

func changeOf(c *fanoutv1.LastChange) *Change {
	if c == nil {
		return nil
	}
	return &Change{Author: c.GetAuthor(), Time: c.GetTime().AsTime(), Message: c.GetMessage()}
}
