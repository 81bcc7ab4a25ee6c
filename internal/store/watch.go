package store

import (
	"context"
	"errors"
	"strconv"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"

	"github.com/fanoutd/fanoutd/internal/object"
)

// Watch streams every change after the given revision. The stream belongs to
// the caller, who closes it.
func (c *Collection) Watch(ctx context.Context, after object.Revision) (object.Stream, error) {
	return c.watch(ctx, c.store.epochs.present(), c.prefix, after, clientv3.WithRange(c.end)), nil
}

// watch opens a watch that begins with the key first and ends with the history.
func (c *Collection) watch(ctx context.Context, h *history, first string, after object.Revision, options ...clientv3.OpOption) *stream {
	// The client puts all watches with the same metadata on one gRPC stream, and
	// etcd answers a progress request only when every watch of the stream is up to
	// date. Metadata of its own gives each watch a stream of its own.
	ctx = metadata.AppendToOutgoingContext(ctx, "fanoutd-stream", strconv.FormatInt(c.store.streams.Add(1), 10))
	// A member that lost its leader ends the watch, so that the client goes to
	// another one and silence does not pass for peace.
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	responses := c.store.client.Watch(ctx, first, append(options,
		clientv3.WithRev(int64(after)+1),
		clientv3.WithProgressNotify(),
		clientv3.WithFragment(),
	)...)
	return &stream{collection: c, history: h, ctx: ctx, cancel: cancel, responses: responses}
}

// stream is a running watch. Its context is kept because the client finds the
// watch by the metadata in it.
type stream struct {
	collection *Collection
	history    *history
	ctx        context.Context
	cancel     context.CancelFunc
	responses  clientv3.WatchChan
}

// Next implements [object.Stream].
func (s *stream) Next(ctx context.Context) (object.Update, error) {
	for {
		resp, err := s.receive(ctx, nil)
		if err != nil {
			return object.Update{}, err
		}
		if u, ok := s.collection.update(resp, nil); ok {
			s.history.note(u.Through)
			return u, nil
		}
	}
}

// receive waits for the next response. Meanwhile it makes a progress request
// whenever it receives from ask.
func (s *stream) receive(ctx context.Context, ask <-chan struct{}) (*clientv3.WatchResponse, error) {
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
			if s.history.isOver() {
				return nil, errHistoryOver
			}
			return &resp, nil
		}
	}
}

// ended returns why the stream has ended, given what etcd says.
func (s *stream) ended(ctx context.Context, err error) error {
	if err = classify(ctx, err); !errors.Is(err, object.ErrCompacted) {
		return err
	}
	// A restored etcd says the same if its revisions were raised, and a reader
	// should not take it for the old one.
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if err := s.collection.store.epochs.verify(call); err != nil {
		return classify(ctx, err)
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
			u.Records = append(u.Records, record(key, e.Kv))
		}
		if previous != nil {
			var before *object.Record
			if e.PrevKv != nil {
				before = new(record(key, e.PrevKv))
			}
			*previous = append(*previous, before)
		}
	}
	return u, true
}

// RequestProgress implements [object.Stream].
func (s *stream) RequestProgress(context.Context) error {
	return s.collection.store.client.RequestProgress(s.ctx)
}

// Close implements [object.Stream]. The client's goroutines of the watch have
// ended when its channel is closed.
func (s *stream) Close() {
	s.cancel()
	for range s.responses {
		// drained until it is closed
	}
}
