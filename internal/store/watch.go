package store

import (
	"context"
	"errors"
	"sync/atomic"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/store/embedded"
)

// Watch returns a stream of every change after the position. The caller closes the
// stream. The error is [object.ErrUnavailable] if the epoch has changed.
func (c *Collection) Watch(ctx context.Context, after object.Position) (object.Stream, error) {
	epoch, h := c.store.epochs.current()
	if epoch != after.Epoch {
		return nil, errHistoryEnded
	}
	return c.watch(ctx, h, watchRange{first: c.prefix, end: c.end}, after.Revision, maxUnread), nil
}

// watchRange is a range of etcd keys, as a watch reads it.
type watchRange struct {
	first, end string // end is empty for a single key
	previous   bool   // with the record before each change
}

// watch returns a stream of the changes after a revision. It ends with the history h.
func (c *Collection) watch(ctx context.Context, h *history, keys watchRange, after object.Revision, maxUnread int64) *stream {
	c.store.calls.count(OpWatch, nil)
	limits := newLimitedWatch(c.store.watches, maxUnread)
	s := &stream{
		collection: c, history: h, keys: keys, limits: limits,
		// Each watch gets its own watcher. A watcher multiplexes its watches on one gRPC
		// stream, and etcd answers a progress request only when every watch of the stream is
		// up to date. A progress request before or after the watch opens another stream;
		// closing the watcher closes that stream, too.
		watcher: clientv3.NewWatchFromWatchClient(limits, c.store.client),
		opens:   new(atomic.Int64),
	}
	// A member that lost its leader ends the watch, and the client moves to another
	// member. Otherwise a disconnected member would look like an idle etcd.
	s.ctx, s.cancel = context.WithCancel(clientv3.WithRequireLeader(context.WithValue(ctx, opensKey{}, s.opens)))
	s.delivered.Store(int64(after))
	if c.store.member != nil {
		s.backlog = c.store.member.Backlog(keys.first, keys.end, keys.previous, int64(after))
	}
	if s.backlog == nil {
		s.open(after)
	}
	return s
}

// open opens the watch of etcd.
func (s *stream) open(after object.Revision) {
	options := []clientv3.OpOption{clientv3.WithRange(s.keys.end), clientv3.WithRev(int64(after) + 1), clientv3.WithProgressNotify()}
	if s.keys.previous {
		options = append(options, clientv3.WithPrevKV())
	}
	s.responses = s.watcher.Watch(s.ctx, s.keys.first, options...)
}

// opensKey is the context key of a watch for the number of times that its gRPC stream
// was opened.
type opensKey struct{}

// countOpens is an interceptor of client streams. It counts before the new stream is
// used.
func countOpens(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, options ...grpc.CallOption) (grpc.ClientStream, error) {
	if opens, ok := ctx.Value(opensKey{}).(*atomic.Int64); ok {
		opens.Add(1)
	}
	return open(ctx, desc, conn, method, options...)
}

// stream is a running watch. It keeps its context because the client finds the watch
// by the metadata in the context.
type stream struct {
	collection    *Collection
	history       *history
	keys          watchRange
	ctx           context.Context
	cancel        context.CancelFunc
	backlog       *embedded.Backlog // what an embedded etcd had at the start; nil: it has been read
	limits        *limitedWatch
	taken         int // size of the changes in the last response
	watcher       clientv3.Watcher
	responses     clientv3.WatchChan // nil while there is a backlog
	opens         *atomic.Int64      // see opensKey
	verifiedOpens int64              // value of opens when the epoch was last verified
	delivered     atomic.Int64       // revision up to which everything has been delivered
}

// Next implements [object.Stream].
func (s *stream) Next(ctx context.Context) (object.Update, error) {
	for {
		resp, err := s.receive(ctx, nil)
		if err != nil {
			return object.Update{}, err
		}
		if u, ok := s.collection.update(resp, nil); ok {
			s.advance(u.Through)
			return u, nil
		}
	}
}

// advance records that everything up to a revision has been delivered.
func (s *stream) advance(through object.Revision) {
	s.delivered.Store(int64(through))
	s.history.advance(through)
}

// receive waits for the next response. While it waits, it sends a progress request for
// each value from ask. The caller has processed the response before.
func (s *stream) receive(ctx context.Context, ask <-chan struct{}) (_ *clientv3.WatchResponse, err error) {
	defer func() { s.collection.store.calls.countFailure(OpWatch, err) }()
	s.limits.take(s.taken)
	s.taken = 0
	if s.backlog != nil {
		return s.receiveBacklog(ctx)
	}
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-s.history.ended:
			return nil, errHistoryEnded
		case <-ask:
			if err := s.RequestProgress(ctx); err != nil {
				return nil, classify(ctx, err)
			}
		case resp, ok := <-s.responses:
			if !ok {
				if err := s.ctx.Err(); err != nil {
					return nil, err
				}
				return nil, object.ErrUnavailable
			}
			if err := resp.Err(); err != nil {
				return nil, s.endError(ctx, err)
			}
			if err := s.verifyIfReopened(ctx); err != nil {
				return nil, err
			}
			s.taken = sizeOfEvents(resp.Events)
			return &resp, nil
		}
	}
}

// receiveBacklog returns the next part of the backlog. After the last part, it opens the watch
// of etcd.
func (s *stream) receiveBacklog(ctx context.Context) (*clientv3.WatchResponse, error) {
	if s.history.hasEnded() {
		return nil, errHistoryEnded
	}
	resp, err := s.backlog.Next(ctx)
	if err != nil {
		return nil, s.endError(ctx, err)
	}
	if last, done := s.backlog.Done(); done {
		s.open(object.Revision(last))
		s.backlog = nil
	}
	return resp, nil
}

// verifyIfReopened returns an error if the responses may belong to another history than
// the start of the stream. The client reopens a broken stream on its own, and continues
// even if etcd was restored in between.
func (s *stream) verifyIfReopened(ctx context.Context) error {
	if opens := s.opens.Load(); opens != s.verifiedOpens {
		s.collection.store.versions.invalidate()
		if err := s.verify(ctx); err != nil {
			return err
		}
		s.verifiedOpens = opens
	}
	if s.history.hasEnded() {
		return errHistoryEnded
	}
	return nil
}

// verify verifies that etcd still has the known epoch.
func (s *stream) verify(ctx context.Context) error {
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return classify(ctx, s.collection.store.epochs.verify(call))
}

// endError returns the reason for the end of the stream, given the error of etcd. An
// etcd that was restored with raised revisions reports a compacted revision. The reader
// must not mistake it for the old etcd.
func (s *stream) endError(ctx context.Context, err error) error {
	if err = classify(ctx, err); !errors.Is(err, object.ErrCompacted) {
		return err
	}
	if err := s.verify(ctx); err != nil {
		return err
	}
	if s.history.hasEnded() {
		return errHistoryEnded
	}
	return err
}

// update converts a response, and returns false if the response is empty. If previous
// is not nil, update appends the record before each change to it.
func (c *Collection) update(resp *clientv3.WatchResponse, previous *[]*object.Record) (object.Update, bool) {
	if resp.IsProgressNotify() {
		return object.Update{Through: object.Revision(resp.Header.GetRevision())}, true
	}
	if len(resp.Events) == 0 {
		return object.Update{}, false
	}
	u := object.Update{
		Records: make([]object.Record, 0, len(resp.Events)),
		Through: object.Revision(resp.Events[len(resp.Events)-1].Kv.ModRevision),
	}
	for _, e := range resp.Events {
		key, ok := c.key(e.Kv.Key)
		switch {
		case !ok:
			continue
		case e.Type == mvccpb.Event_DELETE:
			u.Records = append(u.Records, object.Record{Key: key, ModRevision: object.Revision(e.Kv.ModRevision), Deleted: true})
		default:
			u.Records = append(u.Records, c.record(key, e.Kv))
		}
		if previous != nil {
			var before *object.Record
			if e.PrevKv != nil {
				before = new(c.record(key, e.PrevKv))
			}
			*previous = append(*previous, before)
		}
	}
	return u, true
}

// Close implements [object.Stream]. The client closes the channel of the watch after its
// goroutines have ended.
func (s *stream) Close() {
	s.cancel()
	if s.responses != nil {
		for range s.responses {
			// drain until the client closes the channel
		}
	}
	_ = s.watcher.Close() // the error only reports that the watch was cancelled
}
