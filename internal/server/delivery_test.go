package server_test

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/durationpb"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/wire"
	"github.com/fanoutd/fanoutd/test/check"
)

// heldEncoder holds the dispatcher at the event of one key, so that everything
// that is written meanwhile is dispatched together.
type heldEncoder struct {
	wire.Encoder
	key     object.Key
	reached chan struct{} // gets a value when the event has come
	release chan struct{} // closed to let it pass
}

func newHeldEncoder(key object.Key) *heldEncoder {
	return &heldEncoder{key: key, reached: make(chan struct{}, 1), release: make(chan struct{})}
}

func (e *heldEncoder) AppendEvent(b []byte, event object.Event, v object.Projection) []byte {
	if event.Key == e.key {
		select {
		case e.reached <- struct{}{}:
		default:
		}
		<-e.release
	}
	return e.Encoder.AppendEvent(b, event, v)
}

// What waits for a watcher is merged per key, as the table of the protocol says.
// Here everything waits because the dispatcher does; so it is known what.
func TestLatestMergesWhatWaits(t *testing.T) {
	encoder := newHeldEncoder("hold")
	in := start(t, settings{encoder: encoder})
	release := sync.OnceFunc(func() { close(encoder.release) })
	defer release()
	ctx := within(t)
	l := in.ledger(config)
	for _, key := range []string{"changed", "changed and deleted", "deleted", "deleted and added", "deleted, added and deleted", "untouched"} {
		l.set(ctx, t, key, "before")
	}
	here := &fanoutv1.Position{Epoch: in.epoch(ctx, t), Revision: l.at}
	watch := func(d fanoutv1.Delivery) *inbox {
		w := in.watch(ctx, t, &fanoutv1.WatchRequest{Resource: config, Begin: after(here), PreviousObject: true, Delivery: d}).collect()
		w.await(ctx, t, synced)
		return w
	}
	latest, every := watch(fanoutv1.Delivery_DELIVERY_LATEST), watch(fanoutv1.Delivery_DELIVERY_EVERY)

	l.set(ctx, t, "hold", "")
	<-encoder.reached
	type step struct {
		key  string
		text string // "": delete
	}
	for _, s := range []step{
		{"added", "1"},
		{"added and changed", "1"},
		{"added and deleted", "1"},
		{"changed", "1"},
		{"changed and deleted", "1"},
		{"deleted", ""},
		{"deleted and added", ""},
		{"deleted, added and deleted", ""},
		{"added and changed", "2"},
		{"changed", "2"},
		{"added and deleted", ""},
		{"changed and deleted", ""},
		{"deleted and added", "2"},
		{"deleted, added and deleted", "2"},
		{"added and changed", "3"},
		{"deleted, added and deleted", ""},
		{"changed", "3"},
	} {
		if s.text == "" {
			l.remove(ctx, t, s.key)
		} else {
			l.set(ctx, t, s.key, s.text)
		}
	}
	// The cacher has it all; the dispatcher has not seen it.
	in.list(ctx, t, &fanoutv1.ListRequest{Resource: config}, nothing)
	release()

	all := latest.await(ctx, t, reached(l.at))
	var got []string
	for _, m := range all {
		for _, e := range m.GetEvents() {
			got = append(got, fmt.Sprintf("%v %s %q, was %q", e.GetType(), e.GetObject().GetKey(), e.GetObject().GetText(), e.GetPrevious().GetText()))
		}
	}
	// In order of the last revisions.
	want := []string{
		`TYPE_ADDED hold "", was ""`,
		`TYPE_ADDED added "1", was ""`,
		`TYPE_DELETED deleted "before", was "before"`,
		`TYPE_DELETED changed and deleted "before", was "before"`,
		`TYPE_MODIFIED deleted and added "2", was "before"`,
		`TYPE_ADDED added and changed "3", was ""`,
		`TYPE_DELETED deleted, added and deleted "before", was "before"`,
		`TYPE_MODIFIED changed "3", was "before"`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events, -want +got:\n%s", diff)
	}
	if n := len(all) - 2; n > 2 {
		t.Errorf("what belongs together came in %d messages: %v", n, all)
	}
	resumed := watch(fanoutv1.Delivery_DELIVERY_LATEST).await(ctx, t, reached(l.at))
	// Who resumes is told that what came and went is gone: a part of a message that
	// it was cut off in may have told it that it came.
	again := slices.DeleteFunc(eventsOf(resumed), func(e event) bool {
		return e.Key == "added and deleted" && e.Type == fanoutv1.Event_TYPE_DELETED
	})
	if len(again) == len(eventsOf(resumed)) {
		t.Error("who comes later is not told what is gone")
	}
	if diff := cmp.Diff(eventsOf(all), again); diff != "" || len(kindsIn(resumed)) != 1 || kindsIn(resumed)[0] != fanoutv1.WatchResponse_CATCH_UP_REPLAY {
		t.Errorf("who comes later gets something else by a %v, -want +got:\n%s", kindsIn(resumed), diff)
	}
	// The neighbour, who wants every event, gets them.
	neighbour := every.await(ctx, t, reached(l.at))
	truth := l.truth(ctx, t, check.Conditions{Window: 1000})
	for _, h := range []check.History{
		{Watcher: "latest", Latest: true, Streams: []check.Stream{streamOf(t, check.After, here, all)}},
		{Watcher: "neighbour", Streams: []check.Stream{streamOf(t, check.After, here, neighbour)}},
	} {
		h.Previous = true
		if err := check.Validate(&h, truth); err != nil {
			t.Error(err)
		}
	}
}

func isSynced(m *fanoutv1.WatchResponse) bool {
	return m.GetKind() == fanoutv1.WatchResponse_KIND_SYNCED
}

// synced reports whether the watcher has been brought to the present.
func synced(all []*fanoutv1.WatchResponse) bool { return slices.ContainsFunc(all, isSynced) }

// eventsOf returns the events of the messages.
func eventsOf(all []*fanoutv1.WatchResponse) []event {
	var events []event
	for _, m := range all {
		events = append(events, eventsIn(m)...)
	}
	return events
}

// reached reports whether the last of the messages is at the revision.
func reached(revision int64) func([]*fanoutv1.WatchResponse) bool {
	return func(all []*fanoutv1.WatchResponse) bool {
		return len(all) > 0 && all[len(all)-1].GetPosition().GetRevision() >= revision
	}
}

// Events that were merged belong together. A message that cannot take them all is
// partial, and its position is one that all of them lie behind.
func TestLatestMarksParts(t *testing.T) {
	encoder := newHeldEncoder("hold")
	in := start(t, settings{encoder: encoder})
	release := sync.OnceFunc(func() { close(encoder.release) })
	defer release()
	ctx := within(t)
	l := in.ledger(config)
	here := in.list(ctx, t, &fanoutv1.ListRequest{Resource: config}, nothing).at
	latest := in.watch(ctx, t, &fanoutv1.WatchRequest{Resource: config, Begin: after(here), Delivery: fanoutv1.Delivery_DELIVERY_LATEST}).collect()
	latest.await(ctx, t, synced)

	held := l.set(ctx, t, "hold", "")
	<-encoder.reached
	const keys = 3
	for round := range 2 {
		for k := range keys {
			l.set(ctx, t, fmt.Sprint(k), strings.Repeat(fmt.Sprint(round), maxValueBytes-1<<10))
		}
	}
	in.list(ctx, t, &fanoutv1.ListRequest{Resource: config, PageSize: 1}, nothing)
	release()
	all := latest.await(ctx, t, reached(l.at))
	parts := 0
	for _, m := range all {
		if m.GetPartial() {
			parts++
			if at := m.GetPosition().GetRevision(); at > held {
				t.Errorf("a part has the position %d, behind the first of its events", at)
			}
		}
	}
	if got := eventsOf(all); len(got) != 1+keys || parts != keys-1 {
		t.Errorf("%d keys came as %d events, %d messages of which are parts", 1+keys, len(got), parts)
	}
	h := check.History{Watcher: "latest", Latest: true, Streams: []check.Stream{streamOf(t, check.After, here, all)}}
	if err := check.Validate(&h, l.truth(ctx, t, check.Conditions{Window: 1000})); err != nil {
		t.Error(err)
	}
}

// A watcher that does not read is not sent what is out of date by the time that it
// does: of thousands of changes of a few keys it gets a few events.
func TestLatestIsLittleForAReaderThatStalls(t *testing.T) {
	in := start(t, settings{})
	ctx := within(t)
	l := in.ledger(config)
	here := in.list(ctx, t, &fanoutv1.ListRequest{Resource: config}, nothing).at
	const window = 1 << 10
	latest := openRaw(ctx, t, in.address, &fanoutv1.WatchRequest{
		Resource: config, Begin: after(here), Delivery: fanoutv1.Delivery_DELIVERY_LATEST, PreviousObject: true,
	}, window)
	latest.readFrames()
	// What the server holds back of one message is more than it takes of a stream
	// that is not read; it may have taken another one before it notices.
	l.set(ctx, t, "large", strings.Repeat("x", 256<<10))
	latest.await(ctx, t, "the window is used up", func(s *rawStream) bool { return s.received == window })

	const keys, rounds = 5, 300
	for i := range rounds {
		texts := map[string]*string{}
		for k := range keys {
			if (i+k)%(k+2) > 0 { // keys come and go
				texts[fmt.Sprint("key ", k)] = new(fmt.Sprint(i))
			} else {
				texts[fmt.Sprint("key ", k)] = nil
			}
		}
		l.write(ctx, t, texts)
	}
	l.set(ctx, t, "last", "")
	in.list(ctx, t, &fanoutv1.ListRequest{Resource: config}, nothing) // the server has it all
	latest.grant(t, 1<<30)
	all, err := latest.await(ctx, t, "everything has come", func(s *rawStream) bool { return reached(l.at)(s.all) })
	if err != nil {
		t.Fatal(err)
	}
	events, messages := 0, 0
	for _, m := range all {
		events += len(m.GetEvents())
		if m.GetKind() == fanoutv1.WatchResponse_KIND_LIVE {
			messages++
		}
	}
	// The large one; what was taken before the server noticed; all the rest.
	if most := 1 + keys + keys + 1; messages > 3 || events > most {
		t.Errorf("%d changes of %d keys came as %d events in %d messages, want at most %d in 3", len(l.changes), keys, events, messages, most)
	}
	h := check.History{
		Watcher: "latest", Latest: true, Previous: true,
		Streams: []check.Stream{streamOf(t, check.After, here, all)},
	}
	if err := check.Validate(&h, l.truth(ctx, t, check.Conditions{Window: 5000})); err != nil {
		t.Error(err)
	}
}

// With a delay the first event leaves at once, and one message brings what comes in
// the time after it. The delay here is so long that only the last bookmark ends it.
func TestAMessageBringsWhatComesWithinTheDelay(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	in := start(t, settings{})
	ctx := within(t)
	l := in.ledger(config)
	// A catch-up of several messages does not wait, or this test would not end.
	large := strings.Repeat("x", maxValueBytes-1<<10)
	for i := range 3 {
		l.set(ctx, t, fmt.Sprint("large ", i), large)
	}
	deliveries := []fanoutv1.Delivery{fanoutv1.Delivery_DELIVERY_EVERY, fanoutv1.Delivery_DELIVERY_LATEST}
	var watches []*watch
	for _, delivery := range deliveries {
		watches = append(watches, in.watch(ctx, t, &fanoutv1.WatchRequest{
			Resource: config, MaxBatchDelay: durationpb.New(time.Minute), TimeLimit: durationpb.New(2 * time.Second), Delivery: delivery,
		}))
		watches[len(watches)-1].catchUp(fanoutv1.WatchResponse_CATCH_UP_RESET)
	}
	var want []event
	for i := range 20 {
		key := fmt.Sprint(i)
		want = append(want, added(key, "", l.set(ctx, t, key, "")))
		if i > 0 {
			continue
		}
		for _, w := range watches {
			w.wantEvents(want...)
		}
	}
	for _, w := range watches {
		wantEvents(t, w.next(fanoutv1.WatchResponse_KIND_LIVE), want[1:]...)
		w.next(fanoutv1.WatchResponse_KIND_BOOKMARK)
		w.next(fanoutv1.WatchResponse_KIND_DRAINING)
		if _, err := w.stream.Recv(); !errors.Is(err, io.EOF) {
			t.Errorf("the stream ends with %v, want OK", err)
		}
	}
}
