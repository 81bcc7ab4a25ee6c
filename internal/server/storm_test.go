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
	"github.com/fanoutd/fanoutd/test/race"
)

// sharedEncoder counts what is encoded, by key and revision.
type sharedEncoder struct {
	wire.Encoder

	mu      sync.Mutex
	made    map[string]int // guarded by mu; events that were encoded, or added to a message
	foreign int            // guarded by mu; ADDED events with values that are not the bytes of the object
}

func newSharedEncoder() *sharedEncoder { return &sharedEncoder{made: map[string]int{}} }

func (e *sharedEncoder) AppendEvent(b []byte, event object.Event, v object.Projection) []byte {
	e.note(fmt.Sprint(event.Key, "@", event.Revision))
	return e.Encoder.AppendEvent(b, event, v)
}

func (e *sharedEncoder) AddedEvent(o *object.Object, v object.Projection) []byte {
	e.note(fmt.Sprint(o.Key, "@", o.ModRevision))
	event := e.Encoder.AddedEvent(o, v)
	if !v.OmitValues && &event[0] != &o.Encoded[0] {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.foreign++
	}
	return event
}

func (e *sharedEncoder) note(event string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.made[event]++
}

// reset forgets what was counted, and returns it: how many different events there
// were, and how many were encoded.
func (e *sharedEncoder) reset() (different, encoded, foreign int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, n := range e.made {
		encoded += n
	}
	different, foreign = len(e.made), e.foreign
	clear(e.made)
	e.foreign = 0
	return different, encoded, foreign
}

// storm is a crowd of watchers with one request who come together.
type storm struct {
	connections, streams int // streams: on each of them
	request              *fanoutv1.WatchRequest
	kind                 fanoutv1.WatchResponse_CatchUp
	want                 []event                    // of the catch-up; nil: whatever it is
	during               func(connection int) error // called by each connection when half of its streams are open
}

// hit lets the storm come and returns when everybody has been brought to the
// present.
func (s *storm) hit(ctx context.Context, t *testing.T, in *instance) {
	t.Helper()
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	begun := time.Now()
	var group sync.WaitGroup
	for c := range s.connections {
		reads := fanoutv1.NewFanoutServiceClient(dial(t, in.address, grpc.WithWriteBufferSize(4<<10), grpc.WithReadBufferSize(4<<10)))
		group.Go(func() {
			var streams []fanoutv1.FanoutService_WatchClient
			for i := range s.streams {
				stream, err := reads.Watch(ctx, s.request)
				if err != nil {
					t.Error(err)
					return
				}
				streams = append(streams, stream)
				if i == s.streams/2 && s.during != nil {
					if err := s.during(c); err != nil {
						t.Error(err)
					}
				}
			}
			for _, stream := range streams {
				if err := s.arrive(stream); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	t.Logf("%d watchers are synced within %v", s.connections*s.streams, time.Since(begun))
}

func (s *storm) arrive(stream fanoutv1.FanoutService_WatchClient) error {
	var all []*fanoutv1.WatchResponse
	for !synced(all) {
		m, err := stream.Recv()
		if err != nil {
			return err
		}
		all = append(all, m)
	}
	if kind := all[0].GetCatchUp(); kind != s.kind {
		return fmt.Errorf("a catch-up of kind %v, want %v", kind, s.kind)
	}
	if diff := cmp.Diff(s.want, eventsOf(all)); diff != "" && s.want != nil {
		return fmt.Errorf("events, -want +got:\n%s", diff)
	}
	return nil
}

// Thousands of watchers of one interest that begin at the same time, wherever they
// begin, cost as much encoding as one of them.
func TestStormsShareWhatIsEncoded(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	const window = 40
	encoder := newSharedEncoder()
	// Nobody is sent away because the machine is busy with the others.
	in := start(t, settings{encoder: encoder, window: cacher.WindowLimits{MaxChanges: window}, readWait: patience})
	ctx, cancel := context.WithTimeout(t.Context(), 4*patience)
	defer cancel()
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
	// Its feed may have begun before it did, with what was still to be dispatched.
	if different, encoded, _ := encoder.reset(); different < len(replay) || encoded != different {
		t.Errorf("for one watcher who saw %d events %d were encoded %d times", len(replay), different, encoded)
	}

	const connections = 20
	thousands, some := 250, 50 // watchers on each of them
	if race.Enabled {
		thousands, some = 50, 10
	}
	// After each write, those who want to be up to date want more than the others
	// got.
	writes := 0
	var writing sync.Mutex
	write := func(connection int) error {
		if connection%2 == 0 {
			return nil
		}
		writing.Lock()
		defer writing.Unlock()
		writes++
		_, err := in.writes.Put(ctx, &fanoutv1.PutRequest{Resource: config, Put: putText("written in the storm", "")})
		return err
	}
	for _, c := range []struct {
		name    string
		streams int
		request *fanoutv1.WatchRequest
		kind    fanoutv1.WatchResponse_CatchUp
		want    []event
		encoded int
		during  func(int) error
	}{
		{
			"snapshot without values", thousands,
			&fanoutv1.WatchRequest{OmitValues: true},
			fanoutv1.WatchResponse_CATCH_UP_RESET, omitted, len(omitted), nil,
		},
		{
			"replay from the window", some,
			&fanoutv1.WatchRequest{PreviousObject: true, Begin: after(recent)},
			fanoutv1.WatchResponse_CATCH_UP_REPLAY, replay, len(replay), nil,
		},
		{
			"replay of what somebody has seen", some,
			&fanoutv1.WatchRequest{Begin: after(recent)},
			fanoutv1.WatchResponse_CATCH_UP_REPLAY, replay, 0, nil,
		},
		{
			"difference", some,
			&fanoutv1.WatchRequest{Begin: after(old)},
			fanoutv1.WatchResponse_CATCH_UP_DELTA, difference, len(difference), nil,
		},
		{
			"replay while a writer writes", some,
			&fanoutv1.WatchRequest{PreviousObject: true, Begin: after(recent)},
			fanoutv1.WatchResponse_CATCH_UP_REPLAY, nil, len(replay), write,
		},
		{
			"snapshot while a writer writes", thousands,
			&fanoutv1.WatchRequest{},
			fanoutv1.WatchResponse_CATCH_UP_RESET, nil, len(snapshot), write,
		},
		{
			"difference while a writer writes", some,
			&fanoutv1.WatchRequest{OmitValues: true, Begin: after(old)},
			fanoutv1.WatchResponse_CATCH_UP_DELTA, nil, len(difference), write,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			writes = 0
			c.request.Resource = config
			crowd := storm{connections: connections, streams: c.streams, request: c.request, kind: c.kind, want: c.want, during: c.during}
			crowd.hit(ctx, t, in)
			different, encoded, foreign := encoder.reset()
			t.Logf("%d different events, %d encoded, %d writes", different, encoded, writes)
			if foreign > 0 {
				t.Errorf("%d events of a snapshot are copies of objects", foreign)
			}
			if writes == 0 && (different != c.encoded || encoded != c.encoded) {
				t.Errorf("%d different events were encoded %d times, want %d, each once", different, encoded, c.encoded)
			}
			// Once for each state there was, if nobody came too late for the one
			// that it was to be brought to; and each watcher for itself would be
			// a hundred times as much.
			if most := 4 * (writes + 1) * (c.encoded + writes); encoded > most {
				t.Errorf("with %d writes meanwhile, %d different events were encoded %d times, want at most %d", writes, different, encoded, most)
			}
		})
	}
}
