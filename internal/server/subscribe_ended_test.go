package server_test

import (
	"context"
	"maps"
	"testing"

	"google.golang.org/grpc/codes"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/test/poll"
)

// wantStreamWatchesEnded waits until the server has counted these ends of watches, and no others.
func (in *instance) wantStreamWatchesEnded(ctx context.Context, t *testing.T, want map[codes.Code]int64) {
	t.Helper()
	var got map[codes.Code]int64
	if !poll.Wait(ctx, func() bool {
		got = in.server.StreamWatchesEnded()
		maps.DeleteFunc(got, func(_ codes.Code, n int64) bool { return n == 0 })
		return maps.Equal(got, want)
	}) {
		t.Fatalf("got ends %v, want %v", got, want)
	}
}

// Each start of a stream is counted once: when it is refused, or when its watch ends, however it ends.
func TestEndsOfWatchesOfStreamsAreCounted(t *testing.T) {
	in := start(t, settings{encoder: explodingEncoder{}, policy: bobMay("watch", config, "")})
	ctx := within(t)
	alice, bob := in.as(t, "alice"), in.as(t, "bob")
	s := bob.subscribe(ctx, t)
	fromNowOn := func(id uint64) *watch {
		t.Helper()
		w := s.start(id, &fanoutv1.WatchRequest{Resource: config, Begin: fromNow()})
		w.next(fanoutv1.WatchResponse_KIND_BOOKMARK)
		return w
	}
	want := map[codes.Code]int64{}
	wantOne := func(what string, code codes.Code) {
		t.Helper()
		t.Log(what)
		want[code]++
		in.wantStreamWatchesEnded(ctx, t, want)
	}
	stopped := fromNowOn(1)
	s.stop(1)
	stopped.wantEnded()
	wantOne("stopped", codes.OK)

	ended := fromNowOn(1)
	alice.end(ctx, t, alice.watchers(ctx, t, &fanoutv1.ListWatchersRequest{}).GetWatchers()[0].GetId())
	ended.drained()
	wantOne("ended by an operator", codes.Unavailable)

	s.start(1, &fanoutv1.WatchRequest{Resource: config, LabelSelector: "("})
	wantOne("an invalid start", codes.InvalidArgument)

	alice.put(ctx, t, config, "bomb", "")
	failed := s.start(1, &fanoutv1.WatchRequest{Resource: config})
	var err error
	for err == nil {
		_, err = failed.stream.Recv()
	}
	wantRefusal(t, err, internal)
	wantOne("failed", codes.Internal)

	kept := fromNowOn(1)
	in.usePolicy(t, aliceMay)
	kept.wantDenied(denied("watch", config))
	wantOne("a right was revoked", codes.PermissionDenied)
	s.start(1, &fanoutv1.WatchRequest{Resource: config}).wantRefused(denied("watch", config))
	wantOne("a start without the right", codes.PermissionDenied)

	in.usePolicy(t, bobMay("watch", config, ""))
	revisions := newGate("Revision")
	defer revisions.open()
	in.seams[config].on(revisions.pass)
	waiting := s.start(1, &fanoutv1.WatchRequest{Resource: config})
	revisions.await(ctx, t)
	s.stop(1)
	waiting.wantEnded()
	wantOne("stopped while it waited for etcd", codes.OK)
	revisions.open()
}

// The watches of a stream that ends as a whole are counted with its code, whether they have begun or
// wait for etcd.
func TestWatchesOfStreamsThatEndAreCounted(t *testing.T) {
	for _, c := range []struct {
		what string
		end  func(in *instance, ctx context.Context, cancel func())
		code codes.Code
	}{
		{"the client has gone", func(_ *instance, _ context.Context, cancel func()) { cancel() }, codes.Canceled},
		{"the server drains", func(in *instance, ctx context.Context, _ func()) { in.server.Drain(ctx) }, codes.Unavailable},
	} {
		t.Run(c.what, func(t *testing.T) {
			in := start(t, settings{})
			ctx := within(t)
			in.awaitLoaded(ctx, t)
			streamCtx, cancel := context.WithCancel(ctx)
			defer cancel()
			s := in.subscribe(streamCtx, t)
			for id := range uint64(3) {
				s.start(id, &fanoutv1.WatchRequest{Resource: config, Begin: fromNow()}).next(fanoutv1.WatchResponse_KIND_BOOKMARK)
			}
			revisions := newGate("Revision")
			defer revisions.open()
			in.seams[config].on(revisions.pass)
			s.start(3, &fanoutv1.WatchRequest{Resource: config})
			revisions.await(ctx, t)
			c.end(in, ctx, cancel)
			in.wantStreamWatchesEnded(ctx, t, map[codes.Code]int64{c.code: 4})
		})
	}
}
