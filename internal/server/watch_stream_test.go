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

// watch is the client's end of a Watch.
type watch struct {
	t      *testing.T
	stream fanoutv1.FanoutService_WatchClient
}

// watch starts a watch and waits until the server has registered it.
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
		w.t.Fatalf("got message %v, want kind %v", m, kind)
	}
	if m.GetPosition().GetEpoch() == "" {
		w.t.Fatalf("got message without a position: %v", m)
	}
	switch kind {
	case fanoutv1.WatchResponse_KIND_LIVE, fanoutv1.WatchResponse_KIND_CATCH_UP_PART:
		if len(m.GetEvents()) == 0 {
			w.t.Fatalf("got message without events: %v", m)
		}
	default:
		if len(m.GetEvents()) != 0 {
			w.t.Fatalf("got message with events, want none: %v", m)
		}
	}
	if begins := kind == fanoutv1.WatchResponse_KIND_CATCH_UP_BEGIN; begins != (m.GetCatchUp() != fanoutv1.WatchResponse_CATCH_UP_UNSPECIFIED) {
		w.t.Fatalf("got catch-up %v in a message of kind %v", m.GetCatchUp(), kind)
	}
	return m
}

// catchUp reads a complete catch-up. It returns the events and the SYNCED message.
func (w *watch) catchUp(want fanoutv1.WatchResponse_CatchUp) ([]event, *fanoutv1.WatchResponse) {
	w.t.Helper()
	begin := w.next(fanoutv1.WatchResponse_KIND_CATCH_UP_BEGIN)
	if begin.GetCatchUp() != want {
		w.t.Fatalf("got %v, want a catch-up of kind %v", begin, want)
	}
	reset := want == fanoutv1.WatchResponse_CATCH_UP_RESET
	if reset && begin.GetPosition().GetRevision() != 0 {
		w.t.Errorf("got %v, want no revision before a reset ends", begin)
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
				w.t.Errorf("got %v, want no revision before a reset ends", m)
			}
			events = append(events, eventsIn(m)...)
		case fanoutv1.WatchResponse_KIND_SYNCED:
			return events, m
		default:
			w.t.Fatalf("got %v within a catch-up", m)
		}
	}
}

// wantEvents reads live messages until it has as many events as wanted, and compares them.
// It returns the last position.
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
		w.t.Fatalf("got position %d after the events, want %d", at, want[len(want)-1].At)
	}
	return last.GetPosition()
}

// event has the fields of an event that most tests compare.
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
