package server_test

import (
	"fmt"
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

// heldEncoder blocks the dispatcher at the event of one key. Everything that is written
// until its release is then dispatched together.
type heldEncoder struct {
	wire.Encoder
	key     object.Key
	reached chan struct{} // receives a value when the encoder blocks
	release chan struct{} // closed to end the blocking
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

// DELIVERY_LATEST merges waiting events per key, as the table in the protocol says. The
// held dispatcher makes sure that all events of the test wait.
func TestLatestMergesWaitingEvents(t *testing.T) {
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
	// Wait until the cacher has all changes, while the dispatcher is still held.
	in.list(ctx, t, &fanoutv1.ListRequest{Resource: config}, nothing)
	release()

	all := latest.await(ctx, t, reached(l.at))
	var got []string
	for _, m := range all {
		for _, e := range m.GetEvents() {
			got = append(got, fmt.Sprintf("%v %s %q, was %q", e.GetType(), e.GetObject().GetKey(), e.GetObject().GetText(), e.GetPrevious().GetText()))
		}
	}
	// Merged events are ordered by the last revision of each key.
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
		t.Errorf("got %d messages, want at most 2: %v", n, all)
	}
	resumed := watch(fanoutv1.Delivery_DELIVERY_LATEST).await(ctx, t, reached(l.at))
	// A watcher that resumes also receives the deletion of a key that was added and deleted
	// meanwhile. It may have received the addition in a part of an interrupted message.
	again := slices.DeleteFunc(eventsOf(resumed), func(e event) bool {
		return e.Key == "added and deleted" && e.Type == fanoutv1.Event_TYPE_DELETED
	})
	if len(again) == len(eventsOf(resumed)) {
		t.Error("the resumed watch got no deletion of \"added and deleted\", want one")
	}
	if diff := cmp.Diff(eventsOf(all), again); diff != "" || len(kindsIn(resumed)) != 1 || kindsIn(resumed)[0] != fanoutv1.WatchResponse_CATCH_UP_REPLAY {
		t.Errorf("resumed watch with catch-ups %v, -want +got:\n%s", kindsIn(resumed), diff)
	}
	// A neighbour with DELIVERY_EVERY receives every event.
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

// synced reports whether the watcher has caught up.
func synced(all []*fanoutv1.WatchResponse) bool { return slices.ContainsFunc(all, isSynced) }

// eventsOf returns the events of the messages.
func eventsOf(all []*fanoutv1.WatchResponse) []event {
	var events []event
	for _, m := range all {
		events = append(events, eventsIn(m)...)
	}
	return events
}

// reached returns a condition: the last message has reached the revision.
func reached(revision int64) func([]*fanoutv1.WatchResponse) bool {
	return func(all []*fanoutv1.WatchResponse) bool {
		return len(all) > 0 && all[len(all)-1].GetPosition().GetRevision() >= revision
	}
}

// Merged events belong together. If they do not fit into one message, all parts but the
// last are partial, with a position before the first merged event.
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
				t.Errorf("got position %d on a part, want at most %d", at, held)
			}
		}
	}
	if got := eventsOf(all); len(got) != 1+keys || parts != keys-1 {
		t.Errorf("got %d events and %d partial messages, want %d and %d", len(got), parts, 1+keys, keys-1)
	}
	h := check.History{Watcher: "latest", Latest: true, Streams: []check.Stream{streamOf(t, check.After, here, all)}}
	if err := check.Validate(&h, l.truth(ctx, t, check.Conditions{Window: 1000})); err != nil {
		t.Error(err)
	}
}

// With DELIVERY_LATEST, a client that stalls does not receive outdated events when it
// reads again: thousands of changes of a few keys become a few events.
func TestLatestSendsFewEventsAfterAStall(t *testing.T) {
	in := start(t, settings{})
	ctx := within(t)
	l := in.ledger(config)
	here := in.list(ctx, t, &fanoutv1.ListRequest{Resource: config}, nothing).at
	const window = 1 << 10
	latest := openRaw(ctx, t, in.address, &fanoutv1.WatchRequest{
		Resource: config, Begin: after(here), Delivery: fanoutv1.Delivery_DELIVERY_LATEST, PreviousObject: true,
	}, window)
	latest.readFrames()
	// This message fills all buffers of the stream. The server may accept one more before it
	// notices that the stream is blocked.
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
	in.list(ctx, t, &fanoutv1.ListRequest{Resource: config}, nothing) // wait until the cacher has all changes
	latest.grant(t, 1<<30)
	all, err := latest.await(ctx, t, "all events have arrived", func(s *rawStream) bool { return reached(l.at)(s.all) })
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
	// The messages are: the large one, one accepted before the server noticed, and the rest.
	if most := 1 + keys + keys + 1; messages > 3 || events > most {
		t.Errorf("got %d events in %d messages for %d changes of %d keys, want at most %d in 3", events, messages, len(l.changes), keys, most)
	}
	h := check.History{
		Watcher: "latest", Latest: true, Previous: true,
		Streams: []check.Stream{streamOf(t, check.After, here, all)},
	}
	if err := check.Validate(&h, l.truth(ctx, t, check.Conditions{Window: 5000})); err != nil {
		t.Error(err)
	}
}

// With a batch delay, the server sends the first event at once and those of the following
// delay in one message. The delay of this test is so long that only the time limit ends it: the
// last bookmark is due shortly before the limit.
func TestEventsWithinTheBatchDelayShareAMessage(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	in := start(t, settings{})
	ctx := within(t)
	l := in.ledger(config)
	// The delay does not apply to a catch-up of several messages; otherwise the test would
	// time out.
	large := strings.Repeat("x", maxValueBytes-1<<10)
	for i := range 3 {
		l.set(ctx, t, fmt.Sprint("large ", i), large)
	}
	deliveries := []fanoutv1.Delivery{fanoutv1.Delivery_DELIVERY_EVERY, fanoutv1.Delivery_DELIVERY_LATEST}
	var watches []*watch
	for _, delivery := range deliveries {
		watches = append(watches, in.watch(ctx, t, &fanoutv1.WatchRequest{
			Resource: config, MaxBatchDelay: durationpb.New(time.Minute), TimeLimit: durationpb.New(10 * time.Second), Delivery: delivery,
		}))
		watches[len(watches)-1].catchUp(fanoutv1.WatchResponse_CATCH_UP_RESET)
	}
	var want []event
	for i := range 5 { // all of them before the time limit, on a busy machine, too
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
		if more, _ := w.wantLimited(); len(more) != 0 {
			t.Errorf("got %v after the events of the delay, want nothing", more)
		}
	}
}
