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

// wantLimited reads the rest of a watch that its time limit ends, and returns the
// events and the position to resume at.
func (w *watch) wantLimited() ([]event, *fanoutv1.Position) {
	w.t.Helper()
	var events []event
	for {
		m, err := w.stream.Recv()
		if err != nil {
			w.t.Fatal(err)
		}
		events = append(events, eventsIn(m)...)
		if m.GetKind() != fanoutv1.WatchResponse_KIND_DRAINING {
			continue
		}
		if _, err := w.stream.Recv(); !errors.Is(err, io.EOF) {
			w.t.Fatalf("the stream ends with %v, want OK", err)
		}
		return events, m.GetPosition()
	}
}

// A subscriber whose watches end all the time, while a writer writes, is told
// everything once.
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
		t.Error("the test is too easy: nothing was told before the writer stopped")
	}

	// What has not been told yet comes after the last position.
	want = append(want, added("last", "", in.put(ctx, t, config, "last", "")))
	for len(got) < len(want) {
		watch()
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("all watches together, -want +got:\n%s", diff)
	}
}

// The request may ask for less time than the server gives, but not for more. A
// watch that got the longer of the two would outlast this test.
func TestTheTimeLimitIsTheShorterOne(t *testing.T) {
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
				// How much longer it may last nobody can promise.
				if lasted := time.Since(asked); lasted < c.least {
					t.Errorf("asked for %v, it has lasted for %v, want %v at least", limit, lasted, c.least)
				}
				if diff := cmp.Diff([]event{added("a", "1", written)}, events); diff != "" {
					t.Errorf("asked for %v, events, -want +got:\n%s", limit, diff)
				}
				if at.GetRevision() < written || at.GetEpoch() == "" {
					t.Errorf("asked for %v, it ends at %v, want revision %d or later", limit, at, written)
				}
				if n := in.dispatchers[config].Interests(); n != 0 {
					t.Errorf("%d interests are still watched", n)
				}
			}
		})
	}
}

// The time limit ends the watch of a client that does not read, too. It is not told so
// before it reads again, and then goes on where it was.
func TestTheTimeLimitEndsAWatchOfAReaderThatStops(t *testing.T) {
	in := start(t, settings{timeLimit: 100 * time.Millisecond, grace: 100 * time.Millisecond, messageBytes: 64 << 10})
	ctx := within(t)
	here := in.list(ctx, t, &fanoutv1.ListRequest{Resource: config}, nothing).at
	var want []event
	for i := range 10 {
		key, text := fmt.Sprint(i), strings.Repeat("x", 128<<10)
		want = append(want, added(key, text, in.put(ctx, t, config, key, text)))
	}
	const window = 1 << 10
	s := openRaw(ctx, t, in.address, &fanoutv1.WatchRequest{Resource: config, Begin: after(here)}, window)
	s.attend()
	in.lines.await(ctx, t, line{"msg": "finished call", "grpc.method": "Watch"})
	if n := in.dispatchers[config].Interests(); n != 0 {
		t.Errorf("%d interests are still watched", n)
	}

	s.grant(t, 1<<30)
	all, err := s.await(ctx, t, "the stream ends", func(*rawStream) bool { return false })
	if status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("the stream ends with %v, want DEADLINE_EXCEEDED", err)
	}
	got := eventsOf(all)
	if len(got) == 0 || len(got) == len(want) {
		t.Fatalf("the test is too easy: %d of %d events came", len(got), len(want))
	}
	for len(got) < len(want) {
		req := &fanoutv1.WatchRequest{Resource: config, Begin: after(all[len(all)-1].GetPosition())}
		s = openRaw(ctx, t, in.address, req, wideOpen)
		s.attend()
		// However it ends: it may be cut off again while the machine is busy.
		more, _ := s.await(ctx, t, "the stream ends", func(*rawStream) bool { return false })
		got, all = append(got, eventsOf(more)...), append(all, more...)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("all streams together, -want +got:\n%s", diff)
	}
}
