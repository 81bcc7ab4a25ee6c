package store

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/store/embedded"
	"github.com/fanoutd/fanoutd/internal/store/epochs"
)

// Watch returns a watch of every change of the scope after the position, with the records before
// the changes if previous is set. The caller closes the watch. The error is
// [object.ErrUnavailable] if the epoch has changed.
func (c *Collection) Watch(ctx context.Context, scope object.Scope, after object.Position, previous bool) (object.Watch, error) {
	epoch, h := c.store.epochs.Current()
	if epoch != after.Epoch {
		return nil, epochs.ErrEnded
	}
	c.store.calls.count(opWatch, nil)
	w := &watch{
		collection: c, history: h, scope: scope, previous: previous,
	}
	w.first, w.end = c.keyRange(scope)
	if scope != (object.Scope{}) && !c.store.versions.progressIsReliable(ctx) {
		w.first, w.end = c.prefix, c.end // a range that includes the progress marks
	}
	// A member that lost its leader ends the watch, and the client moves to another
	// member. Otherwise a disconnected member would look like an idle etcd.
	w.ctx, w.cancel = context.WithCancel(clientv3.WithRequireLeader(ctx))
	w.delivered.Store(int64(after.Revision))
	m := c.store.member
	if m == nil {
		w.connect(after.Revision)
		return w, nil
	}
	w.live = m.Live(w.first, w.end, previous)
	if w.backlog = m.Backlog(w.first, w.end, previous, int64(after.Revision)); w.backlog != nil {
		return w, nil
	}
	if err := w.live.Open(int64(after.Revision)); err != nil {
		w.Close()
		return nil, classify(ctx, err)
	}
	return w, nil
}

// connect opens a watch of an external etcd.
func (w *watch) connect(after object.Revision) {
	w.limits = newLimitedWatch(w.collection.store.watches, maxUnread)
	if w.previous {
		w.limits.maxUnread = maxUnreadPrevious
	}
	// Each watch gets its own watcher. A watcher multiplexes its watches on one gRPC
	// stream, and etcd answers a progress request only when every watch of the stream is
	// up to date. A progress request before or after the watch opens another stream;
	// closing the watcher closes that stream, too.
	w.watcher = clientv3.NewWatchFromWatchClient(w.limits, w.collection.store.client)
	options := []clientv3.OpOption{clientv3.WithRange(w.end), clientv3.WithRev(int64(after) + 1), clientv3.WithProgressNotify()}
	if w.previous {
		options = append(options, clientv3.WithPrevKV())
	}
	w.responses = w.watcher.Watch(w.ctx, w.first, options...)
}

// watch is a running watch. It keeps its context because the client finds the watch
// by the metadata in the context.
type watch struct {
	collection *Collection
	history    *epochs.History
	scope      object.Scope
	first, end string // range of keys of the watch of etcd, which includes the scope
	previous   bool   // with the record before each change
	ctx        context.Context
	cancel     context.CancelFunc
	updates    [][]*mvccpb.Event // the changes of each update of the last response that is left
	delivered  atomic.Int64      // revision up to which everything has been delivered

	// Of an embedded etcd.
	backlog *embedded.Backlog // what etcd had at the start; nil: it has been read
	live    *embedded.Live    // not open while there is a backlog; nil: external etcd

	// Of an external etcd.
	limits        *limitedWatch
	taken         int // size of the changes in the last response
	watcher       clientv3.Watcher
	responses     clientv3.WatchChan
	verifiedOpens int64 // value of limits.opens when the epoch was last verified
}

// Next implements [object.Watch].
func (w *watch) Next(ctx context.Context) (object.Update, error) {
	for {
		if len(w.updates) == 0 {
			resp, err := w.receive(ctx)
			if err != nil {
				return object.Update{}, err
			}
			if resp.IsProgressNotify() {
				through := object.Revision(resp.Header.GetRevision())
				w.advance(through)
				return object.Update{Through: through}, nil
			}
			w.updates = splitAtRevisions(resp.Events)
			continue
		}
		u := w.update(w.updates[0])
		w.updates = w.updates[1:]
		w.advance(u.Through)
		return u, nil
	}
}

// advance records that everything up to a revision has been delivered.
func (w *watch) advance(through object.Revision) {
	w.delivered.Store(int64(through))
	w.history.Advance(through)
}

// receive waits for the next response. The caller has processed the response before.
func (w *watch) receive(ctx context.Context) (_ *clientv3.WatchResponse, err error) {
	defer func() { w.collection.store.calls.countFailure(opWatch, err) }()
	if w.backlog != nil {
		return w.receiveBacklog(ctx)
	}
	if w.limits != nil {
		w.limits.take(w.taken)
		w.taken = 0
	}
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-w.history.Ended():
			return nil, epochs.ErrEnded
		case <-w.ctx.Done():
			return nil, w.ctx.Err()
		case r, ok := <-w.live.Changes():
			if !ok || w.history.HasEnded() {
				return nil, cmp.Or(w.ctx.Err(), epochs.ErrEnded)
			}
			resp, err := w.live.Response(r)
			if err != nil {
				return nil, w.endError(ctx, err)
			}
			return resp, nil
		case resp, ok := <-w.responses:
			if !ok {
				if err := w.ctx.Err(); err != nil {
					return nil, err
				}
				return nil, object.ErrUnavailable
			}
			if err := resp.Err(); err != nil {
				return nil, w.endError(ctx, err)
			}
			if err := w.verifyIfReopened(ctx); err != nil {
				return nil, err
			}
			w.taken = sizeOfEvents(resp.Events)
			return &resp, nil
		}
	}
}

// receiveBacklog returns the next part of the backlog. After the last part, it opens the live watch.
func (w *watch) receiveBacklog(ctx context.Context) (*clientv3.WatchResponse, error) {
	if w.history.HasEnded() {
		return nil, epochs.ErrEnded
	}
	resp, err := w.backlog.Next(ctx)
	if err != nil {
		return nil, w.endError(ctx, err)
	}
	if last, done := w.backlog.Done(); done {
		if err := w.live.Open(last); err != nil {
			return nil, err
		}
		w.backlog = nil
	}
	return resp, nil
}

// verifyIfReopened returns an error if the responses may belong to another history than
// the start of the watch. The client reopens a broken watch on its own, and continues
// even if etcd was restored in between.
func (w *watch) verifyIfReopened(ctx context.Context) error {
	opens := w.limits.opens.Load()
	if opens != w.verifiedOpens {
		if err := w.verify(ctx); err != nil {
			return err
		}
		w.verifiedOpens = opens
	}
	if w.history.HasEnded() {
		return epochs.ErrEnded
	}
	return nil
}

// verify returns an error if etcd has another history than at the start of the watch.
func (w *watch) verify(ctx context.Context) error {
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if err := w.collection.store.epochs.Verify(call); err != nil {
		return classify(ctx, err)
	}
	if w.history.HasEnded() {
		return epochs.ErrEnded
	}
	return nil
}

// endError returns the reason for the end of the watch, given the error of etcd. An
// etcd that was restored with raised revisions reports a compacted revision. The reader
// must not mistake it for the old etcd.
func (w *watch) endError(ctx context.Context, err error) error {
	err = classify(ctx, err)
	if errors.Is(err, object.ErrCompacted) {
		return cmp.Or(w.verify(ctx), err)
	}
	return err
}

// update converts the events of whole revisions.
func (w *watch) update(events []*mvccpb.Event) object.Update {
	c := w.collection
	u := object.Update{
		Records: make([]object.Record, 0, len(events)),
		Through: object.Revision(events[len(events)-1].Kv.ModRevision),
	}
	for _, e := range events {
		key, ok := c.key(e.Kv.Key)
		if !ok || !w.scope.Contains(key) {
			continue
		}
		if e.Type == mvccpb.Event_DELETE {
			u.Records = append(u.Records, object.Record{Key: key, ModRevision: object.Revision(e.Kv.ModRevision), Deleted: true})
		} else {
			u.Records = append(u.Records, c.record(key, e.Kv))
		}
		if w.previous {
			var before *object.Record
			if e.PrevKv != nil {
				before = new(c.record(key, e.PrevKv))
			}
			u.Previous = append(u.Previous, before)
		}
	}
	return u
}

// Close implements [object.Watch]. The client closes the channel of the watch after its
// goroutines have ended.
func (w *watch) Close() {
	w.cancel()
	if w.live != nil {
		w.live.Close()
		return
	}
	for range w.responses {
		// drain until the client closes the channel
	}
	_ = w.watcher.Close() // the error only reports that the watch was cancelled
}

// updateBytes is the intended size of an update.
const updateBytes = 1 << 20

// splitAtRevisions splits changes into updates of about updateBytes, at the boundaries of revisions.
func splitAtRevisions(events []*mvccpb.Event) (all [][]*mvccpb.Event) {
	if len(events) == 0 {
		return nil
	}
	first, bytes := 0, 0
	for i := range events {
		if bytes >= updateBytes && events[i].Kv.ModRevision != events[i-1].Kv.ModRevision {
			all = append(all, events[first:i])
			first, bytes = i, 0
		}
		bytes += sizeOfEvents(events[i : i+1])
	}
	return append(all, events[first:])
}
