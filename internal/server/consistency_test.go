package server_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/apierr"
)

// read is the outcome of a Get that may have to wait.
type read struct {
	text string
	err  error
}

// reading sends a Get on another connection in the background.
func (in *instance) reading(ctx context.Context, t *testing.T, key string, consistency *fanoutv1.ReadConsistency) <-chan read {
	t.Helper()
	reads := fanoutv1.NewFanoutServiceClient(dial(t, in.address))
	done := make(chan read, 1)
	go func() {
		resp, err := reads.Get(ctx, &fanoutv1.GetRequest{Resource: config, Key: key, Consistency: consistency})
		done <- read{resp.GetObject().GetText(), err}
	}()
	return done
}

// behind keeps the cacher of an instance behind its store until the gate is opened.
func (in *instance) behind(ctx context.Context, t *testing.T) *gate {
	t.Helper()
	in.awaitLoaded(ctx, t)
	updates := newGate("Next")
	t.Cleanup(updates.open)
	in.seams[config].on(updates.pass)
	return updates
}

// Every read that follows a write sees it, even if the cacher receives the write late.
func TestReadsSeeAllEarlierWrites(t *testing.T) {
	for name, consistency := range map[string]func(written int64) *fanoutv1.ReadConsistency{
		"default":      func(int64) *fanoutv1.ReadConsistency { return nil },
		"empty":        func(int64) *fanoutv1.ReadConsistency { return &fanoutv1.ReadConsistency{} },
		"min_revision": minRevision,
	} {
		t.Run(name, func(t *testing.T) {
			in := start(t, settings{})
			ctx := within(t)
			updates := in.behind(ctx, t)
			written := in.put(ctx, t, config, "a", "new")
			updates.await(ctx, t) // the write is on its way to the cacher
			asked := newGate("Revision")
			asked.open()
			in.seams[config].on(func(ctx context.Context, method string) error {
				return errors.Join(updates.pass(ctx, method), asked.pass(ctx, method))
			})

			done := in.reading(ctx, t, "a", consistency(written))
			select {
			case <-asked.reached: // the read knows the revision that it must wait for
			case got := <-done:
				t.Fatalf("the read did not wait: %+v", got)
			}
			updates.open()
			if got := <-done; got.err != nil || got.text != "new" {
				t.Errorf("got %+v, want the new value", got)
			}
		})
	}
}

// With consistency any, nothing is older than what this server has sent on another watch, whatever asks.
func TestAnyDoesNotGoBackInTime(t *testing.T) {
	withAndWithoutCache(t, func(t *testing.T, with settings) {
		in := start(t, with)
		ctx := within(t)
		anyRevision := &fanoutv1.ReadConsistency{Level: &fanoutv1.ReadConsistency_Any{Any: &fanoutv1.AnyRevision{}}}
		request := &fanoutv1.WatchRequest{Resource: config, Scope: exactly("k"), Consistency: anyRevision}
		in.put(ctx, t, config, "k", "first")
		in.awaitLoaded(ctx, t)
		s := in.subscribe(ctx, t)
		first := in.watch(ctx, t, request)
		first.catchUp(fanoutv1.WatchResponse_CATCH_UP_RESET)
		for i := range 20 {
			text := fmt.Sprint("change ", i)
			in.put(ctx, t, config, "k", text)
			received := first.next(fanoutv1.WatchResponse_KIND_LIVE).GetPosition().GetRevision()
			want := func(what, got string, at *fanoutv1.Position) {
				t.Helper()
				if got != text || at.GetRevision() < received {
					t.Errorf("%s: got %q at %d after a watch has received %q at %d", what, got, at.GetRevision(), text, received)
				}
			}
			for what, w := range map[string]*watch{"Watch": in.watch(ctx, t, request), "Subscribe": s.start(uint64(i), request)} {
				events, synced := w.catchUp(fanoutv1.WatchResponse_CATCH_UP_RESET)
				want(what, events[0].Text, synced.GetPosition())
			}
			got, err := in.reads.Get(ctx, &fanoutv1.GetRequest{Resource: config, Key: "k", Consistency: anyRevision})
			if err != nil {
				t.Fatal(err)
			}
			want("Get", got.GetObject().GetText(), got.GetPosition())
			list, err := in.reads.List(ctx, &fanoutv1.ListRequest{Resource: config, Consistency: anyRevision})
			if err != nil {
				t.Fatal(err)
			}
			want("List", list.GetObjects()[0].GetText(), list.GetPosition())
			now := s.start(uint64(100+i), &fanoutv1.WatchRequest{Resource: config, Begin: fromNow(), Consistency: anyRevision})
			want("from_now", text, now.next(fanoutv1.WatchResponse_KIND_BOOKMARK).GetPosition())
		}
	})
}

func TestWritesAreVisibleAtOnceOnAnotherConnection(t *testing.T) {
	in := start(t, settings{})
	ctx := within(t)
	reads := fanoutv1.NewFanoutServiceClient(dial(t, in.address))
	for i := range 100 {
		text := fmt.Sprint(i)
		in.put(ctx, t, config, "a", text)
		got, err := reads.Get(ctx, &fanoutv1.GetRequest{Resource: config, Key: "a"})
		if err != nil {
			t.Fatal(err)
		}
		if got.GetObject().GetText() != text {
			t.Fatalf("got %v, want %q", got, text)
		}
	}
}

func TestReadsOfARevisionThatDoesNotArriveCanBeRetried(t *testing.T) {
	in := start(t, settings{readWait: 100 * time.Millisecond})
	ctx := within(t)
	in.behind(ctx, t)
	before := in.revision(ctx, t)
	written := in.put(ctx, t, config, "a", "new")
	want := refusal{
		Code: codes.Unavailable, Reason: apierr.ReasonRevisionNotReached, Retry: true,
		Metadata: map[string]string{"asked_revision": decimal(written), "current_revision": decimal(before)},
	}
	for name, consistency := range map[string]*fanoutv1.ReadConsistency{"default": nil, "min_revision": minRevision(written)} {
		t.Run(name, func(t *testing.T) {
			_, err := in.reads.Get(ctx, &fanoutv1.GetRequest{Resource: config, Key: "a", Consistency: consistency})
			wantRefusal(t, err, want)
			_, err = in.reads.List(ctx, &fanoutv1.ListRequest{Resource: config, Consistency: consistency})
			wantRefusal(t, err, want)
			stream, err := in.reads.Watch(ctx, &fanoutv1.WatchRequest{Resource: config, Consistency: consistency})
			if err != nil {
				t.Fatal(err)
			}
			_, err = stream.Recv()
			wantRefusal(t, err, want)
		})
	}
	t.Run("position", func(t *testing.T) {
		stream, err := in.reads.Watch(ctx, &fanoutv1.WatchRequest{
			Resource: config, Begin: after(&fanoutv1.Position{Epoch: in.epoch(ctx, t), Revision: written}),
		})
		if err != nil {
			t.Fatal(err)
		}
		_, err = stream.Recv()
		wantRefusal(t, err, want)
	})
	t.Run("any", func(t *testing.T) {
		_, err := in.reads.Get(ctx, &fanoutv1.GetRequest{Resource: config, Key: "a", Consistency: anyRevision()})
		wantRefusal(t, err, keyNotFound("a", before))
	})
}

func TestReadsOfAnyAndReachedRevisionsDoNotNeedTheStore(t *testing.T) {
	in := start(t, settings{})
	ctx := within(t)
	in.awaitLoaded(ctx, t)
	written := in.put(ctx, t, config, "a", "1")
	in.list(ctx, t, &fanoutv1.ListRequest{Resource: config}, nothing)
	in.seams[config].on(func(context.Context, string) error { return object.ErrUnavailable })
	for _, consistency := range []*fanoutv1.ReadConsistency{anyRevision(), minRevision(written)} {
		got, err := in.reads.Get(ctx, &fanoutv1.GetRequest{Resource: config, Key: "a", Consistency: consistency})
		if err != nil || got.GetObject().GetText() != "1" {
			t.Errorf("with %v: got %v, %v", consistency, got, err)
		}
	}
	_, err := in.reads.Get(ctx, &fanoutv1.GetRequest{Resource: config, Key: "a"})
	wantRefusal(t, err, storeUnavailable)
	_, err = in.reads.Get(ctx, &fanoutv1.GetRequest{Resource: config, Key: "a", Consistency: minRevision(written + 1)})
	wantRefusal(t, err, storeUnavailable)
}

var storeUnavailable = refusal{Code: codes.Unavailable, Reason: apierr.ReasonStoreUnavailable, Retry: true}

func TestReadsOfALoadingResourceCanBeRetried(t *testing.T) {
	listing := newGate("List")
	defer listing.open()
	in := start(t, settings{
		readWait:  100 * time.Millisecond,
		interfere: func(_ string, s *seam) { s.on(listing.pass) },
	})
	ctx := within(t)
	want := refusal{Code: codes.Unavailable, Reason: apierr.ReasonNotReady, Retry: true}
	for _, consistency := range []*fanoutv1.ReadConsistency{nil, anyRevision(), minRevision(1)} {
		_, err := in.reads.Get(ctx, &fanoutv1.GetRequest{Resource: config, Key: "a", Consistency: consistency})
		wantRefusal(t, err, want)
		stream, err := in.reads.Watch(ctx, &fanoutv1.WatchRequest{Resource: config, Consistency: consistency})
		if err != nil {
			t.Fatal(err)
		}
		_, err = stream.Recv()
		wantRefusal(t, err, want)
	}
	// Writes do not need the cache. A read that follows them must be retried until it is
	// loaded.
	written := in.put(ctx, t, config, "a", "1")
	listing.open()
	retrying(t, func() error {
		got, err := in.reads.Get(ctx, &fanoutv1.GetRequest{Resource: config, Key: "a", Consistency: minRevision(written)})
		if err == nil && got.GetObject().GetText() != "1" {
			t.Errorf("got %v", got)
		}
		return err
	})
}
