package server_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/wire"
	"github.com/fanoutd/fanoutd/test/poll"
	"github.com/fanoutd/fanoutd/test/race"
)

// encodingCounter counts how often each event is encoded.
type encodingCounter struct {
	wire.Encoder

	mu      sync.Mutex
	encoded map[string]int // guarded by mu; by key and revision
	copied  int            // guarded by mu; ADDED events whose bytes are not those of the object
}

func newEncodingCounter() *encodingCounter { return &encodingCounter{encoded: map[string]int{}} }

func (e *encodingCounter) AppendEvent(b []byte, event object.Event, v object.Projection) []byte {
	e.count(fmt.Sprint(event.Key, "@", event.Revision))
	return e.Encoder.AppendEvent(b, event, v)
}

func (e *encodingCounter) AddedEvent(o *object.Object, v object.Projection) []byte {
	e.count(fmt.Sprint(o.Key, "@", o.ModRevision))
	event := e.Encoder.AddedEvent(o, v)
	if !v.OmitValues && &event[0] != &o.Encoded()[0] {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.copied++
	}
	return event
}

func (e *encodingCounter) count(event string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.encoded[event]++
}

// reset returns the counts and sets them to zero: the number of different events, the
// number of encodings, and the number of ADDED events that were copied.
func (e *encodingCounter) reset() (different, encoded, copied int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, n := range e.encoded {
		encoded += n
	}
	different, copied = len(e.encoded), e.copied
	clear(e.encoded)
	e.copied = 0
	return different, encoded, copied
}

// storm is many watchers that send the same request at the same time.
type storm struct {
	connections, streams int // streams is per connection
	request              *fanoutv1.WatchRequest
	kind                 fanoutv1.WatchResponse_CatchUp
	want                 []event // of the catch-up; nil allows any events
}

// run starts all watchers and waits until each has caught up.
func (s *storm) run(ctx context.Context, t *testing.T, in *instance) {
	t.Helper()
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	begun := time.Now()
	var group sync.WaitGroup
	for range s.connections {
		reads := fanoutv1.NewFanoutServiceClient(dial(t, in.address, grpc.WithWriteBufferSize(4<<10), grpc.WithReadBufferSize(4<<10)))
		group.Go(func() {
			var streams []fanoutv1.FanoutService_WatchClient
			for range s.streams {
				stream, err := reads.Watch(ctx, s.request)
				if err != nil {
					t.Error(err)
					return
				}
				streams = append(streams, stream)
			}
			for _, stream := range streams {
				if err := s.catchUp(stream); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	t.Logf("%d watchers caught up in %v", s.connections*s.streams, time.Since(begun))
}

// catchUp reads a stream until SYNCED and checks the catch-up.
func (s *storm) catchUp(stream fanoutv1.FanoutService_WatchClient) error {
	var all []*fanoutv1.WatchResponse
	for !synced(all) {
		m, err := stream.Recv()
		if err != nil {
			return err
		}
		all = append(all, m)
	}
	if kind := all[0].GetCatchUp(); kind != s.kind {
		return fmt.Errorf("got a catch-up of kind %v, want %v", kind, s.kind)
	}
	if diff := cmp.Diff(s.want, eventsOf(all)); diff != "" && s.want != nil {
		return fmt.Errorf("events, -want +got:\n%s", diff)
	}
	return nil
}

// Thousands of watchers of one interest begin at the same time. Together they cost as
// many encodings as a single one, for every kind of catch-up.
func TestStormsEncodeEachEventOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	const window = 40
	encoder := newEncodingCounter()
	// A long readWait: on a busy machine, no watcher may be refused for waiting too long.
	in := start(t, settings{encoder: encoder, window: cacher.WindowLimits{MaxChanges: window}, readWait: poll.Patience})
	ctx := within(t)
	l := in.ledger(config)
	text := func(i int) string { return fmt.Sprint("text ", i) }
	for i := range 40 {
		l.set(ctx, t, fmt.Sprintf("k%02d", i), text(i))
	}
	epoch := in.epoch(ctx, t)
	old := &fanoutv1.Position{Epoch: epoch, Revision: l.at}
	var difference []event
	for i := range 20 {
		key := fmt.Sprintf("k%02d", i)
		switch {
		case i < 10:
			difference = append(difference, modified(key, "changed", l.set(ctx, t, key, "changed")))
		case i < 15:
			difference = append(difference, deleted(key, "", l.remove(ctx, t, key)))
		default:
			key += " new"
			difference = append(difference, added(key, text(i), l.set(ctx, t, key, text(i))))
		}
	}
	recent := &fanoutv1.Position{Epoch: epoch, Revision: l.at}
	present := in.watch(ctx, t, &fanoutv1.WatchRequest{Resource: config, Begin: fromNow()})
	present.next(fanoutv1.WatchResponse_KIND_BOOKMARK)
	var replay []event
	for i := 20; i < 40; i++ {
		key := fmt.Sprintf("k%02d", i)
		replay = append(replay, modified(key, "recent", l.set(ctx, t, key, "recent")))
	}
	for i := range 5 {
		key := fmt.Sprintf("recent %d", i)
		replay = append(replay, added(key, "recent", l.set(ctx, t, key, "recent")))
	}
	difference = append(difference, replay...)
	present.wantEvents(replay...)
	var snapshot, omitted []event
	for _, key := range slices.Sorted(maps.Keys(l.objects)) {
		o := l.objects[key]
		snapshot = append(snapshot, added(string(key), string(o.Value), int64(o.ModRevision)))
		omitted = append(omitted, added(string(key), "", int64(o.ModRevision)))
	}
	// The feed may have begun before the watcher, with changes that were not yet dispatched.
	if different, encoded, _ := encoder.reset(); different < len(replay) || encoded != different {
		t.Errorf("one watcher received %d events; %d different events were encoded %d times, want each once", len(replay), different, encoded)
	}

	const connections = 20
	many, some := 250, 50 // watchers per connection
	if race.Enabled {
		many, some = 50, 10
	}
	// Between writes, groups of watchers begin. Each write moves the revision that the next group catches up to, so the
	// number of states to catch up to does not depend on the machine.
	const writes = 10
	for _, c := range []struct {
		name    string
		streams int
		request *fanoutv1.WatchRequest
		kind    fanoutv1.WatchResponse_CatchUp
		want    []event
		encoded int
		writes  int
	}{
		{
			"snapshot without values", many,
			&fanoutv1.WatchRequest{OmitValues: true},
			fanoutv1.WatchResponse_CATCH_UP_RESET, omitted, len(omitted), 0,
		},
		{
			"replay from the window", some,
			&fanoutv1.WatchRequest{PreviousObject: true, Begin: after(recent)},
			fanoutv1.WatchResponse_CATCH_UP_REPLAY, replay, len(replay), 0,
		},
		{
			"replay of events encoded before", some,
			&fanoutv1.WatchRequest{Begin: after(recent)},
			fanoutv1.WatchResponse_CATCH_UP_REPLAY, replay, 0, 0,
		},
		{
			"difference", some,
			&fanoutv1.WatchRequest{Begin: after(old)},
			fanoutv1.WatchResponse_CATCH_UP_DELTA, difference, len(difference), 0,
		},
		{
			"replay between writes", some,
			&fanoutv1.WatchRequest{PreviousObject: true, Begin: after(recent)},
			fanoutv1.WatchResponse_CATCH_UP_REPLAY, nil, len(replay), writes,
		},
		{
			"snapshot between writes", many,
			&fanoutv1.WatchRequest{},
			fanoutv1.WatchResponse_CATCH_UP_RESET, nil, len(snapshot), writes,
		},
		{
			"difference between writes", some,
			&fanoutv1.WatchRequest{OmitValues: true, Begin: after(old)},
			fanoutv1.WatchResponse_CATCH_UP_DELTA, nil, len(difference), writes,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.request.Resource = config
			groups := max(1, c.writes)
			for group := range groups {
				if c.writes > 0 {
					in.put(ctx, t, config, "written in the storm", "")
				}
				if c.kind == fanoutv1.WatchResponse_CATCH_UP_REPLAY && c.writes > 0 {
					// The shared parts of a replay last for some time after a write, which depends on the machine. So
					// each group has an interest of its own.
					c.request.LabelSelector = fmt.Sprintf("group!=%d", group)
				}
				s := storm{connections: connections, streams: c.streams / groups, request: c.request, kind: c.kind, want: c.want}
				s.run(ctx, t, in)
			}
			different, encoded, copied := encoder.reset()
			t.Logf("%d different events, %d encoded, %d writes", different, encoded, c.writes)
			if copied > 0 {
				t.Errorf("got %d snapshot events that copy their object, want 0", copied)
			}
			if c.writes == 0 && (different != c.encoded || encoded != c.encoded) {
				t.Errorf("got %d different events and %d encodings, want %d of each", different, encoded, c.encoded)
			}
			// Each state that a group catches up to is encoded once, and each write once for each interest. Without
			// sharing, the number would be as many times larger as a group has watchers.
			if most := groups*(c.encoded+c.writes) + c.writes*(groups+1); encoded > most {
				t.Errorf("got %d encodings of %d different events with %d writes, want at most %d", encoded, different, c.writes, most)
			}
		})
	}
}
