package store

import (
	"context"
	"errors"
	"sync/atomic"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/fanoutd/fanoutd/internal/object"
)

// Watch streams every change after the position. The stream belongs to the caller,
// who closes it. The error is [object.ErrUnavailable] where the epoch is another one
// by now.
func (c *Collection) Watch(ctx context.Context, after object.Position) (object.Stream, error) {
	epoch, h := c.store.epochs.now()
	if epoch != after.Epoch {
		return nil, errHistoryOver
	}
	return c.watch(ctx, h, c.prefix, after.Revision, clientv3.WithRange(c.end)), nil
}

// watch opens a watch that begins with the key first and ends with the history.
func (c *Collection) watch(ctx context.Context, h *history, first string, after object.Revision, options ...clientv3.OpOption) *stream {
	// A watcher puts all its watches on one gRPC stream, and etcd answers a progress
	// request only when every watch of the stream is up to date. A watcher of its own
	// gives each watch a stream of its own, which ends with it, too: one that is
	// asked for progress when its watch has ended opens another stream.
	c.store.calls.note(OpWatch, nil)
	watcher := c.store.newWatcher()
	opened := new(atomic.Int64)
	ctx = context.WithValue(ctx, openedKey{}, opened)
	// A member that lost its leader ends the watch, so that the client goes to
	// another one and silence does not pass for peace.
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	// Without clientv3.WithFragment: etcd 3.7 computes the size of a whole fragment again
	// for each event that it adds, so that 36,000 small changes that a watch is behind
	// took 10 s instead of 0.1 s. The client puts fragments together before we see them,
	// and takes responses of up to 2 GiB; etcd sends at most 1,000 revisions in one.
	responses := watcher.Watch(ctx, first, append(options,
		clientv3.WithRev(int64(after)+1),
		clientv3.WithProgressNotify(),
	)...)
	s := &stream{collection: c, history: h, ctx: ctx, cancel: cancel, watcher: watcher, responses: responses, opened: opened}
	s.through.Store(int64(after))
	return s
}

// openedKey is the key, in the context of a watch, of a number that counts how
// often its gRPC stream was opened.
type openedKey struct{}

// countOpened is an interceptor of the client's streams. It counts before the new
// stream is used.
func countOpened(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, options ...grpc.CallOption) (grpc.ClientStream, error) {
	if opened, ok := ctx.Value(openedKey{}).(*atomic.Int64); ok {
		opened.Add(1)
	}
	return open(ctx, desc, conn, method, options...)
}

// stream is a running watch. Its context is kept because the client finds the
// watch by the metadata in it.
type stream struct {
	collection *Collection
	history    *history
	ctx        context.Context
	cancel     context.CancelFunc
	watcher    clientv3.Watcher
	responses  clientv3.WatchChan
	opened     *atomic.Int64 // see openedKey
	trusted    int64         // so often had it been opened when etcd was last verified
	through    atomic.Int64  // revision: everything up to here has been delivered
}

// Next implements [object.Stream].
func (s *stream) Next(ctx context.Context) (object.Update, error) {
	for {
		resp, err := s.receive(ctx, nil)
		if err != nil {
			return object.Update{}, err
		}
		if u, ok := s.collection.update(resp, nil); ok {
			s.reached(u.Through)
			return u, nil
		}
	}
}

// reached takes down how far the stream is.
func (s *stream) reached(through object.Revision) {
	s.through.Store(int64(through))
	s.history.note(through)
}

// receive waits for the next response. Meanwhile it makes a progress request
// whenever it receives from ask.
func (s *stream) receive(ctx context.Context, ask <-chan struct{}) (_ *clientv3.WatchResponse, err error) {
	defer func() { s.collection.store.calls.failed(OpWatch, err) }()
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-s.history.over:
			return nil, errHistoryOver
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
				return nil, s.ended(ctx, err)
			}
			if err := s.trust(ctx); err != nil {
				return nil, err
			}
			return &resp, nil
		}
	}
}

// trust returns an error if what the stream says may be of another history than the
// one that it began with. The client opens it again by itself when the connection
// was lost, and whatever etcd was restored to meanwhile, it just goes on.
func (s *stream) trust(ctx context.Context) error {
	if opened := s.opened.Load(); opened != s.trusted {
		s.collection.store.versions.expire()
		if err := s.verify(ctx); err != nil {
			return err
		}
		s.trusted = opened
	}
	if s.history.isOver() {
		return errHistoryOver
	}
	return nil
}

// verify asks etcd whether it is still the one it was.
func (s *stream) verify(ctx context.Context) error {
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return classify(ctx, s.collection.store.epochs.verify(call))
}

// ended returns why the stream has ended, given what etcd says. A restored etcd says
// that a revision is compacted if its revisions were raised, and a reader should not
// take it for the old one.
func (s *stream) ended(ctx context.Context, err error) error {
	if err = classify(ctx, err); !errors.Is(err, object.ErrCompacted) {
		return err
	}
	if err := s.verify(ctx); err != nil {
		return err
	}
	if s.history.isOver() {
		return errHistoryOver
	}
	return err
}

// update returns what a response says, or false if it says nothing. If previous is
// given, it gets what was there before each record.
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

// Close implements [object.Stream]. The client's goroutines of the watch have
// ended when its channel is closed.
func (s *stream) Close() {
	s.cancel()
	for range s.responses {
		// drained until it is closed
	}
	_ = s.watcher.Close() // says no more than that it was cancelled
}
