package server_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

func fromNow() *fanoutv1.WatchRequest_FromNow {
	return &fanoutv1.WatchRequest_FromNow{FromNow: &fanoutv1.FromNow{}}
}

func after(p *fanoutv1.Position) *fanoutv1.WatchRequest_After {
	return &fanoutv1.WatchRequest_After{After: p}
}

// watch is the receiving end of a Watch.
type watch struct {
	t      *testing.T
	stream fanoutv1.FanoutService_WatchClient
}

// watch returns a watch that the server has registered.
func (in *instance) watch(ctx context.Context, t *testing.T, req *fanoutv1.WatchRequest) *watch {
	t.Helper()
	stream, err := in.reads.Watch(ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Header(); err != nil {
		t.Fatal(err)
	}
	return &watch{t, stream}
}

// next returns the next message, which must be of the given kind.
func (w *watch) next(kind fanoutv1.WatchResponse_Kind) *fanoutv1.WatchResponse {
	w.t.Helper()
	m, err := w.stream.Recv()
	if err != nil {
		w.t.Fatalf("waiting for %v: %v", kind, err)
	}
	if m.GetKind() != kind {
		w.t.Fatalf("want a message of kind %v, got %v", kind, m)
	}
	if m.GetPosition().GetEpoch() == "" {
		w.t.Fatalf("there is no position in %v", m)
	}
	switch kind {
	case fanoutv1.WatchResponse_KIND_LIVE, fanoutv1.WatchResponse_KIND_CATCH_UP_PART:
		if len(m.GetEvents()) == 0 {
			w.t.Fatalf("no events in %v", m)
		}
	default:
		if len(m.GetEvents()) != 0 {
			w.t.Fatalf("events in %v", m)
		}
	}
	if begins := kind == fanoutv1.WatchResponse_KIND_CATCH_UP_BEGIN; begins != (m.GetCatchUp() != fanoutv1.WatchResponse_CATCH_UP_UNSPECIFIED) {
		w.t.Fatalf("kind %v with catch-up %v", kind, m.GetCatchUp())
	}
	return m
}

// catchUp reads a whole catch-up and returns its events and the last message.
func (w *watch) catchUp(want fanoutv1.WatchResponse_CatchUp) ([]event, *fanoutv1.WatchResponse) {
	w.t.Helper()
	begin := w.next(fanoutv1.WatchResponse_KIND_CATCH_UP_BEGIN)
	if begin.GetCatchUp() != want {
		w.t.Fatalf("want a catch-up of kind %v, got %v", want, begin)
	}
	reset := want == fanoutv1.WatchResponse_CATCH_UP_RESET
	if reset && begin.GetPosition().GetRevision() != 0 {
		w.t.Errorf("while a reset is under way the position is none: %v", begin)
	}
	var events []event
	for {
		m, err := w.stream.Recv()
		if err != nil {
			w.t.Fatal(err)
		}
		switch m.GetKind() {
		case fanoutv1.WatchResponse_KIND_CATCH_UP_PART:
			if reset && m.GetPosition().GetRevision() != 0 {
				w.t.Errorf("while a reset is under way the position is none: %v", m)
			}
			events = append(events, eventsIn(m)...)
		case fanoutv1.WatchResponse_KIND_SYNCED:
			return events, m
		default:
			w.t.Fatalf("unexpected in a catch-up: %v", m)
		}
	}
}

// wantEvents reads live messages until there are as many events as wanted, and
// returns the last position.
func (w *watch) wantEvents(want ...event) *fanoutv1.Position {
	w.t.Helper()
	var got []event
	var last *fanoutv1.WatchResponse
	for len(got) < len(want) {
		last = w.next(fanoutv1.WatchResponse_KIND_LIVE)
		got = append(got, eventsIn(last)...)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		w.t.Fatalf("events, -want +got:\n%s", diff)
	}
	if at := last.GetPosition().GetRevision(); at != want[len(want)-1].At {
		w.t.Fatalf("position after the events is %d, want %d", at, want[len(want)-1].At)
	}
	return last.GetPosition()
}

// event is what most tests look at.
type event struct {
	Type fanoutv1.Event_Type
	Key  string
	Text string
	At   int64
}

func added(key, text string, at int64) event {
	return event{fanoutv1.Event_TYPE_ADDED, key, text, at}
}

func modified(key, text string, at int64) event {
	return event{fanoutv1.Event_TYPE_MODIFIED, key, text, at}
}

func deleted(key, text string, at int64) event {
	return event{fanoutv1.Event_TYPE_DELETED, key, text, at}
}

func eventsIn(m *fanoutv1.WatchResponse) []event {
	var events []event
	for _, e := range m.GetEvents() {
		events = append(events, event{e.GetType(), e.GetObject().GetKey(), e.GetObject().GetText(), e.GetRevision()})
	}
	return events
}

func wantEvents(t *testing.T, m *fanoutv1.WatchResponse, want ...event) {
	t.Helper()
	if diff := cmp.Diff(want, eventsIn(m)); diff != "" {
		t.Errorf("events, -want +got:\n%s", diff)
	}
}
