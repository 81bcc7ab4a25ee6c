package server_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// wantLimited reads a watch until its time limit ends it. It returns the events and the
// position to resume at.
func (w *watch) wantLimited() ([]event, *fanoutv1.Position) {
	w.t.Helper()
	events, position, err := w.untilLimited()
	if err != nil {
		w.t.Fatal(err)
	}
	return events, position
}

// untilLimited is wantLimited. It returns an error if the watch ends in another way.
func (w *watch) untilLimited() ([]event, *fanoutv1.Position, error) {
	var events []event
	for {
		m, err := w.stream.Recv()
		if err != nil {
			return nil, nil, err
		}
		events = append(events, eventsIn(m)...)
		if m.GetKind() != fanoutv1.WatchResponse_KIND_DRAINING {
			continue
		}
		if _, err := w.stream.Recv(); !errors.Is(err, io.EOF) {
			return nil, nil, fmt.Errorf("got stream end %w, want OK", err)
		}
		return events, m.GetPosition(), nil
	}
}

// A subscriber resumes again and again because a short time limit ends its watches. It
// receives each event of a busy writer exactly once.
func TestResumableAfterTheTimeLimit(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	in := start(t, settings{timeLimit: 150 * time.Millisecond})
	ctx := within(t)
	here := in.list(ctx, t, &fanoutv1.ListRequest{Resource: config}, nothing).at
	var group sync.WaitGroup
	defer group.Wait()
	enough, cancel := context.WithCancel(ctx)
	defer cancel()
	var want []event
	begun := make(chan struct{})
	group.Go(func() {
		for i := 0; enough.Err() == nil; i++ {
			key := fmt.Sprint(i)
			resp, err := in.writes.Put(ctx, &fanoutv1.PutRequest{Resource: config, Put: putText(key, "")})
			if err != nil {
				t.Error(err)
				return
			}
			want = append(want, added(key, "", resp.GetRevision()))
			if i == 0 {
				close(begun)
			}
		}
	})
	<-begun

	var got []event
	req := &fanoutv1.WatchRequest{Resource: config, Begin: after(here), EveryEvent: true}
	watch := func() {
		events, at := in.watch(ctx, t, req).wantLimited()
		got = append(got, events...)
		req.Begin = after(at)
	}
	for range 6 {
		watch()
	}
	cancel()
	group.Wait()
	if len(got) == 0 {
		t.Error("no event arrived before the writer stopped, so the test proves nothing")
	}

	// The remaining events come after the last position.
	want = append(want, added("last", "", in.put(ctx, t, config, "last", "")))
	for len(got) < len(want) {
		watch()
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("all watches together, -want +got:\n%s", diff)
	}
}

// A request can shorten the server's time limit but not extend it. A watch with the
// longer of the two limits would outlast this test.
func TestWatchesUseTheShorterTimeLimit(t *testing.T) {
	const long = time.Hour
	for name, c := range map[string]struct {
		server   time.Duration
		requests []time.Duration
		least    time.Duration
	}{
		"the server's":  {500 * time.Millisecond, []time.Duration{0, long}, 400 * time.Millisecond},
		"the request's": {long, []time.Duration{time.Second}, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			in := start(t, settings{timeLimit: c.server})
			ctx := within(t)
			written := in.put(ctx, t, config, "a", "1")
			for _, limit := range c.requests {
				req := &fanoutv1.WatchRequest{Resource: config}
				if limit > 0 {
					req.TimeLimit = durationpb.New(limit)
				}
				asked := time.Now()
				events, at := in.watch(ctx, t, req).wantLimited()
				// There is no upper bound: a busy machine may end the watch late.
				if lasted := time.Since(asked); lasted < c.least {
					t.Errorf("requested limit %v: the watch lasted %v, want at least %v", limit, lasted, c.least)
				}
				if diff := cmp.Diff([]event{added("a", "1", written)}, events); diff != "" {
					t.Errorf("requested limit %v: events, -want +got:\n%s", limit, diff)
				}
				if at.GetRevision() < written || at.GetEpoch() == "" {
					t.Errorf("requested limit %v: got end position %v, want revision %d or later", limit, at, written)
				}
				if n := in.dispatchers[config].Interests(); n != 0 {
					t.Errorf("got %d interests after the end, want 0", n)
				}
			}
		})
	}
}

// The time limit also ends the watch of a client that has stopped reading. The client
// learns of it when it reads again, and resumes at its last position.
func TestTheTimeLimitEndsWatchesOfClientsThatStopReading(t *testing.T) {
	in := start(t, settings{timeLimit: 500 * time.Millisecond, grace: 100 * time.Millisecond, messageBytes: 64 << 10})
	ctx := within(t)
	here := in.list(ctx, t, &fanoutv1.ListRequest{Resource: config}, nothing).at
	var want []event
	for i := range 10 {
		key, text := fmt.Sprint(i), strings.Repeat("x", 128<<10)
		want = append(want, added(key, text, in.put(ctx, t, config, key, text)))
	}
	const window = 1 << 10
	s := openRaw(ctx, t, in.address, &fanoutv1.WatchRequest{Resource: config, Begin: after(here)}, window)
	s.readFrames()
	in.lines.await(ctx, t, line{"msg": "finished call", "grpc.method": "Watch"})
	if n := in.dispatchers[config].Interests(); n != 0 {
		t.Errorf("got %d interests after the end, want 0", n)
	}

	s.grant(t, 1<<30)
	all, err := s.await(ctx, t, "the stream ends", func(*rawStream) bool { return false })
	if status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("got stream end %v, want DEADLINE_EXCEEDED", err)
	}
	got := eventsOf(all)
	if len(got) == 0 || len(got) == len(want) {
		t.Fatalf("got %d of %d events, want some but not all", len(got), len(want))
	}
	for len(got) < len(want) {
		req := &fanoutv1.WatchRequest{Resource: config, Begin: after(all[len(all)-1].GetPosition())}
		s = openRaw(ctx, t, in.address, req, wideOpen)
		s.readFrames()
		// Any end of the stream is fine: on a busy machine the limit may cut it off again.
		more, _ := s.await(ctx, t, "the stream ends", func(*rawStream) bool { return false })
		got, all = append(got, eventsOf(more)...), append(all, more...)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("all streams together, -want +got:\n%s", diff)
	}
}
