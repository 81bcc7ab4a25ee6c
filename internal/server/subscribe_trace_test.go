package server_test

import (
	"context"
	"slices"
	"sync"
	"testing"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server"
	"github.com/fanoutd/fanoutd/internal/server/backend"
	"github.com/fanoutd/fanoutd/test/poll"
)

// recordingTracer records the deliveries.
type recordingTracer struct {
	mu  sync.Mutex
	all []backend.Delivery // guarded by mu
}

func (*recordingTracer) Writing(context.Context) func(object.Revision) {
	return func(object.Revision) {}
}
func (*recordingTracer) Wants() bool { return true }
func (r *recordingTracer) Delivered(d backend.Delivery) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, d)
}

// of returns the messages with the event of a revision, and the number of watches that got it.
func (r *recordingTracer) of(at object.Revision) (found []backend.Delivery, watches int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, d := range r.all {
		if d.After < at && at <= d.Upto && d.Shows(at) {
			found = append(found, d)
			watches += 1 + d.Others
		}
	}
	return found, watches
}

// The tracer counts every watch of a stream that gets an event. It gets the ids of a few of the
// watches that share a message, so a message for very many watches costs the worker no more.
func TestDeliveriesOfStreamsAreTraced(t *testing.T) {
	tracer := &recordingTracer{}
	in := start(t, settings{configure: func(cfg *server.Config) {
		for i := range cfg.Resources {
			cfg.Resources[i].Tracer = tracer
		}
	}})
	ctx := within(t)
	s := in.subscribe(ctx, t)
	const many, traced = 20, 16
	var all []*watch
	for id := range uint64(many) {
		w := s.start(id, &fanoutv1.WatchRequest{Resource: config, Begin: fromNow()})
		w.next(fanoutv1.WatchResponse_KIND_BOOKMARK)
		all = append(all, w)
	}
	alone := s.start(many, &fanoutv1.WatchRequest{Resource: config, Begin: fromNow(), Scope: exactly("a")})
	alone.next(fanoutv1.WatchResponse_KIND_BOOKMARK)
	elsewhere := s.start(many+1, &fanoutv1.WatchRequest{Resource: config, Begin: fromNow(), Scope: exactly("b")})
	elsewhere.next(fanoutv1.WatchResponse_KIND_BOOKMARK)

	at := in.put(ctx, t, config, "a", "1")
	for _, w := range append(all, alone) {
		w.wantEvents(added("a", "1", at))
	}
	poll.Until(t, "the messages are traced", func() bool {
		found, _ := tracer.of(object.Revision(at))
		return len(found) > traced
	})
	found, watches := tracer.of(object.Revision(at))
	if len(found) != traced+1 || watches != many+1 {
		t.Errorf("got %d deliveries to %d watches, want %d to %d", len(found), watches, traced+1, many+1)
	}
	var ids []string
	for _, w := range in.watchers(ctx, t, &fanoutv1.ListWatchersRequest{}).GetWatchers() {
		if w.GetRequest().GetScope().GetKey() != "b" {
			ids = append(ids, w.GetId())
		}
	}
	seen := map[string]bool{}
	for _, d := range found {
		if seen[d.Watcher] || !slices.Contains(ids, d.Watcher) {
			t.Errorf("got a delivery to the watch %q, want one to each of %q at most", d.Watcher, ids)
		}
		seen[d.Watcher] = true
		if d.Events != 1 || d.Bytes == 0 || d.Peer == "" || d.Sent.Before(d.Arrived) {
			t.Errorf("got the delivery %+v", d)
		}
	}
}
