package robustness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/tests/v3/robustness/model"
	"golang.org/x/time/rate"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// goal is the revision at which watchers finish. It is set when the last write is
// acknowledged, and every watcher receives an event at it.
type goal struct {
	revision atomic.Int64
	known    context.Context
	announce context.CancelFunc
}

func newGoal(ctx context.Context) *goal {
	g := &goal{}
	g.known, g.announce = context.WithCancel(ctx)
	return g
}

func (g *goal) set(revision int64) {
	g.revision.Store(revision)
	g.announce()
}

// watcher watches a span, and records what it receives as watches of etcd. It moves
// between servers, leaves and comes back, until it reaches the goal.
type watcher struct {
	name      string
	base      time.Time
	rng       *rand.Rand
	clients   []fanoutv1.FanoutServiceClient // each stream uses a random one
	ledger    *ledger
	goal      *goal
	retryPace *rate.Limiter // limits how often it opens a stream
	span      span
	previous  bool // request previous objects
	patience  int  // it leaves after about this many messages; 0: it never leaves

	position *fanoutv1.Position // where it can resume; nil if it cannot
	reached  atomic.Int64       // the revision of the last position

	history *model.AppendableHistory // the present state, as its streams began with it
	start   time.Duration            // when the stream was requested; 0: not from the present

	watches []model.WatchOperation
	open    bool                           // the last recorded watch has not ended
	partial []model.WatchEvent             // events of an incomplete revision
	begins  fanoutv1.WatchResponse_CatchUp // the catch-up in progress

	objects map[string]*mvccpb.KeyValue // its copy of the span; nil if it has none
	states  []state                     // its copies at the end of each catch-up
	seen    map[string]int              // number of things that happened to it, by name
}

func (w *watcher) run(ctx context.Context) error {
	w.seen = map[string]int{}
	// Start at different times. If many watchers begin with the same state, any order of
	// them is valid, and the validator tries all orders before it rejects a later
	// operation.
	if err := w.ledger.pass(ctx, w.rng.IntN(300)); err != nil {
		return fmt.Errorf("%s: %w", w.name, err)
	}
	for !w.finished() {
		if err := w.retryPace.Wait(ctx); err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
		left, err := w.watch(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
		if left && w.rng.IntN(3) == 0 {
			if err := w.ledger.pass(ctx, w.rng.IntN(1000)); err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
		}
	}
	return nil
}

func (w *watcher) now() time.Duration { return time.Since(w.base) }

// finished reports whether the watcher has reached the goal.
func (w *watcher) finished() bool {
	goal := w.goal.revision.Load()
	return goal > 0 && w.reached.Load() >= goal
}

// request chooses where the next stream begins, mostly where the last one ended.
func (w *watcher) request() *fanoutv1.WatchRequest {
	req := &fanoutv1.WatchRequest{
		Resource: resource, Scope: w.span.scope, FieldSelector: w.span.fieldSelector, PreviousObject: w.previous,
	}
	if w.rng.IntN(2) == 0 {
		req.BookmarkInterval = durationpb.New(200 * time.Millisecond)
	}
	switch n := w.rng.IntN(10); {
	case w.position != nil && n < 8:
		req.Begin = &fanoutv1.WatchRequest_After{After: w.position}
	case n == 8:
		req.Begin = &fanoutv1.WatchRequest_FromNow{FromNow: &fanoutv1.FromNow{}}
	}
	return req
}

// watch opens one stream and records it until it ends. It reports whether the watcher
// left.
func (w *watcher) watch(ctx context.Context) (left bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// A watcher that is already at the goal receives no more events.
	defer context.AfterFunc(w.goal.known, func() {
		if w.finished() {
			cancel()
		}
	})()
	req := w.request()
	if w.start = 0; req.GetAfter() == nil {
		w.start = w.now()
	}
	w.open, w.partial, w.begins = false, nil, fanoutv1.WatchResponse_CATCH_UP_UNSPECIFIED
	enough := -1
	if w.patience > 0 {
		enough = 1 + w.rng.IntN(2*w.patience)
	}
	stream, err := w.clients[w.rng.IntN(len(w.clients))].Watch(ctx, req)
	if err != nil {
		return false, w.ended(err)
	}
	w.seen["streams"]++
	for received := 0; received != enough; received++ {
		m, err := stream.Recv()
		if err != nil {
			return false, w.ended(err)
		}
		if err := w.receive(m); err != nil {
			return false, fmt.Errorf("%v: %w", m, err)
		}
		if w.finished() {
			return false, nil
		}
	}
	return true, nil
}

// ended returns an error if a stream must not end with err.
func (w *watcher) ended(err error) error {
	switch {
	case w.finished() && (status.Code(err) == codes.Canceled || errors.Is(err, context.Canceled)):
		return nil
	case errors.Is(err, io.EOF), unknown(err):
		return nil
	}
	return unexpected("the stream ended", err)
}

// receive records one message.
func (w *watcher) receive(m *fanoutv1.WatchResponse) error {
	at := m.GetPosition().GetRevision()
	switch m.GetKind() {
	case fanoutv1.WatchResponse_KIND_CATCH_UP_BEGIN:
		w.begins = m.GetCatchUp()
		w.seen[w.begins.String()]++
		w.open = false
		switch w.begins {
		case fanoutv1.WatchResponse_CATCH_UP_REPLAY:
			w.begin(w.position.GetRevision())
		case fanoutv1.WatchResponse_CATCH_UP_RESET:
			w.objects = map[string]*mvccpb.KeyValue{}
		case fanoutv1.WatchResponse_CATCH_UP_DELTA:
		default:
			return errors.New("got a catch-up without a kind")
		}
	case fanoutv1.WatchResponse_KIND_CATCH_UP_PART:
		if w.begins == fanoutv1.WatchResponse_CATCH_UP_REPLAY {
			if err := w.record(m); err != nil {
				return err
			}
		}
		w.apply(m.GetEvents())
	case fanoutv1.WatchResponse_KIND_SYNCED:
		if w.begins == fanoutv1.WatchResponse_CATCH_UP_REPLAY {
			w.bookmark(at)
			break
		}
		w.recordState(at)
		w.begin(at)
	case fanoutv1.WatchResponse_KIND_LIVE:
		if err := w.record(m); err != nil {
			return err
		}
		w.apply(m.GetEvents())
		w.seen["live messages"]++
	case fanoutv1.WatchResponse_KIND_BOOKMARK, fanoutv1.WatchResponse_KIND_DRAINING:
		w.seen[m.GetKind().String()]++
		if at == 0 {
			break // the stream ended before it began
		}
		if w.begins == fanoutv1.WatchResponse_CATCH_UP_UNSPECIFIED && !w.open {
			// From now: the earlier state is unknown.
			w.objects = nil
			w.present(state{span: exactly(unusedKey), revision: at})
			w.begin(at)
		}
		if w.open {
			w.bookmark(at)
		}
	default:
		return errors.New("got a message without a kind")
	}
	w.position = nil
	if at > 0 {
		w.position = m.GetPosition()
		w.reached.Store(at)
	}
	return nil
}

// begin starts the record of a new watch, whose events follow this revision.
func (w *watcher) begin(after int64) {
	w.watches = append(w.watches, model.WatchOperation{Request: model.WatchRequest{
		Key:                w.span.from,
		WithPrefix:         w.span.to != "",
		Revision:           after + 1,
		WithProgressNotify: true,
		WithPrevKV:         w.previous,
	}})
	w.open = true
}

// record records the events of a message, and the promise that its position makes.
func (w *watcher) record(m *fanoutv1.WatchResponse) error {
	if !w.open {
		return errors.New("got events before a catch-up")
	}
	for _, e := range m.GetEvents() {
		event, err := watchEvent(e)
		if err != nil {
			return err
		}
		if event.PrevValue != nil {
			w.seen["previous objects"]++
		}
		w.partial = append(w.partial, event)
	}
	if m.GetPartial() {
		// Discard the received part of a revision if the rest is missing.
		return nil
	}
	if len(w.partial) > 0 {
		w.respond(model.WatchResponse{Events: w.partial, Revision: w.partial[len(w.partial)-1].Revision})
		w.partial = nil
	}
	w.bookmark(m.GetPosition().GetRevision())
	return nil
}

// bookmark records the promise that all events up to the revision have been delivered.
// In etcd only progress notifications make that promise.
func (w *watcher) bookmark(at int64) {
	w.respond(model.WatchResponse{IsProgressNotify: true, Revision: at})
}

func (w *watcher) respond(resp model.WatchResponse) {
	resp.Time = w.now()
	last := &w.watches[len(w.watches)-1]
	last.Responses = append(last.Responses, resp)
}

// watchEvent converts an event to one of etcd. Without a label selector the two differ
// only in form.
func watchEvent(e *fanoutv1.Event) (model.WatchEvent, error) {
	o := e.GetObject()
	event := model.WatchEvent{PersistedEvent: model.PersistedEvent{
		Event:    model.Event{Type: model.PutOperation, Key: prefix + o.GetKey()},
		Revision: e.GetRevision(),
	}}
	switch e.GetType() {
	case fanoutv1.Event_TYPE_ADDED, fanoutv1.Event_TYPE_MODIFIED:
		event.Value = model.ToValueOrHash(string(value(o)))
		event.IsCreate = e.GetType() == fanoutv1.Event_TYPE_ADDED
		if created := o.GetCreateRevision() == o.GetModRevision() && o.GetVersion() == 1; created != event.IsCreate {
			return event, fmt.Errorf("got %v of an object with create revision %d and version %d", e.GetType(), o.GetCreateRevision(), o.GetVersion())
		}
	case fanoutv1.Event_TYPE_DELETED:
		event.Type = model.DeleteOperation
	default:
		return event, errors.New("got an event without a type")
	}
	if e.GetPrevious() != nil {
		event.PrevValue = new(valueRevision(stored(e.GetPrevious())))
	}
	return event, nil
}

// apply applies events to the copy, as any subscriber would.
func (w *watcher) apply(events []*fanoutv1.Event) {
	if w.objects == nil {
		return
	}
	for _, e := range events {
		o := stored(e.GetObject())
		if e.GetType() == fanoutv1.Event_TYPE_DELETED {
			delete(w.objects, string(o.Key))
		} else {
			w.objects[string(o.Key)] = o
		}
	}
}

// recordState records the copy after a RESET or a DELTA.
func (w *watcher) recordState(at int64) {
	if w.objects == nil {
		return
	}
	s := state{span: w.span, revision: at}
	for _, key := range slices.Sorted(maps.Keys(w.objects)) {
		s.objects = append(s.objects, w.objects[key])
	}
	w.states = append(w.states, s)
	if w.begins == fanoutv1.WatchResponse_CATCH_UP_RESET {
		w.present(s)
	}
}

// unusedKey is a key without a value.
const unusedKey = "nothing"

// present records the beginning of a stream that starts from the present. It must be no
// older than any write that was acknowledged before, so it is equivalent to a
// linearizable read. The promise covers only the beginning of the stream.
func (w *watcher) present(s state) {
	if w.start > 0 {
		w.history.AppendRange(s.from, s.to, 0, 0, false, w.start, w.now(), s.response(), nil)
		w.start = 0
	}
}
