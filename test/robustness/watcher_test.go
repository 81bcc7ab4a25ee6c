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

// goal is the revision at which watching ends. It is set when the last write is
// acknowledged, and every watcher gets an event at it.
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

// watcher watches a span, and records what it receives as watches of etcd. It
// goes from server to server, leaves and comes back, until it is at the goal.
type watcher struct {
	name     string
	base     time.Time
	rng      *rand.Rand
	replicas []*replica
	ledger   *ledger
	goal     *goal
	setback  *rate.Limiter // streams are not opened more often
	span     span
	previous bool // ask for the objects as they were before
	patience int  // it leaves after about so many messages; 0: it never leaves

	position *fanoutv1.Position // where it can resume; nil: nowhere
	reached  atomic.Int64       // the revision of the last position

	history *model.AppendableHistory // what it was told of the present when it began
	start   time.Duration            // when the stream was asked for; 0: not for the present

	watches []model.WatchOperation
	open    bool                           // the last of the watches goes on
	partial []model.WatchEvent             // of a revision that is not complete yet
	begins  fanoutv1.WatchResponse_CatchUp // the catch-up that is under way

	objects map[string]*mvccpb.KeyValue // its view of the span; nil: it has none
	states  []state                     // what it took for the state after a catch-up
	seen    map[string]int              // what happened to it, for the record
}

func (w *watcher) run(ctx context.Context) error {
	w.seen = map[string]int{}
	// They do not begin all at once: where many are told the same, any order will do,
	// and before it condemns what comes later the validator tries all of them.
	if err := w.ledger.pass(ctx, w.rng.IntN(300)); err != nil {
		return fmt.Errorf("%s: %w", w.name, err)
	}
	for !w.finished() {
		if err := w.setback.Wait(ctx); err != nil {
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

// request chooses where the next stream begins: mostly where the last one ended.
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

// watch opens one stream and records it until it ends. It reports whether it was
// the watcher that left.
func (w *watcher) watch(ctx context.Context) (left bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// Whoever already is where it should get to hears of no more changes.
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
	stream, err := w.replicas[w.rng.IntN(len(w.replicas))].fanout.Watch(ctx, req)
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

// ended returns an error if a stream must not end like that.
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
			return errors.New("a catch-up without a kind")
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
		w.conclude(at)
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
			break // it was ended before it had begun
		}
		if w.begins == fanoutv1.WatchResponse_CATCH_UP_UNSPECIFIED && !w.open {
			// From now: what came before is not known.
			w.objects = nil
			w.present(state{span: exactly(nothing), revision: at})
			w.begin(at)
		}
		if w.open {
			w.bookmark(at)
		}
	default:
		return errors.New("a message without a kind")
	}
	w.position = nil
	if at > 0 {
		w.position = m.GetPosition()
		w.reached.Store(at)
	}
	return nil
}

// begin begins a new watch: what follows are the events after this revision.
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

// record records the events of a message, and the promise that its position is.
func (w *watcher) record(m *fanoutv1.WatchResponse) error {
	if !w.open {
		return errors.New("events that are not announced")
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
		// What is received of a revision without the rest of it is not used.
		return nil
	}
	if len(w.partial) > 0 {
		w.respond(model.WatchResponse{Events: w.partial, Revision: w.partial[len(w.partial)-1].Revision})
		w.partial = nil
	}
	w.bookmark(m.GetPosition().GetRevision())
	return nil
}

// bookmark records the promise that all events up to the revision have been
// delivered, which in etcd only progress notifications make.
func (w *watcher) bookmark(at int64) {
	w.respond(model.WatchResponse{IsProgressNotify: true, Revision: at})
}

func (w *watcher) respond(resp model.WatchResponse) {
	resp.Time = w.now()
	last := &w.watches[len(w.watches)-1]
	last.Responses = append(last.Responses, resp)
}

// watchEvent returns the event of etcd that an event stands for. Without a label
// selector the two differ in form alone.
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
			return event, fmt.Errorf("%v of an object with create revision %d and version %d", e.GetType(), o.GetCreateRevision(), o.GetVersion())
		}
	case fanoutv1.Event_TYPE_DELETED:
		event.Type = model.DeleteOperation
	default:
		return event, errors.New("an event without a type")
	}
	if e.GetPrevious() != nil {
		event.PrevValue = new(valueRevision(stored(e.GetPrevious())))
	}
	return event, nil
}

// apply brings the view up to date, as any subscriber would.
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

// conclude records the view after a catch-up that was not a replay.
func (w *watcher) conclude(at int64) {
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

// nothing is a key that nobody writes.
const nothing = "nothing"

// present records where a stream begins that was asked for the present: not before
// any write that was acknowledged by then. It is thus what a read would have been
// told. Only the beginning is promised to be so.
func (w *watcher) present(s state) {
	if w.start > 0 {
		w.history.AppendRange(s.from, s.to, 0, 0, false, w.start, w.now(), s.response(), nil)
		w.start = 0
	}
}
