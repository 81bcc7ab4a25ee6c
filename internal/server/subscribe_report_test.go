package server_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/server/quota"
	"github.com/fanoutd/fanoutd/test/poll"
)

// Operators see what the client of a stream reports for its watches, as they see reports of Watch.
func TestOperatorsSeeReportsOfStreams(t *testing.T) {
	withAndWithoutCache(t, func(t *testing.T, with settings) {
		in := start(t, with)
		ctx := within(t)
		in.put(ctx, t, config, "a", "1")
		name := &fanoutv1.Subscriber{Instance: "shop-7", Labels: map[string]string{"app": "shop"}}
		s := in.subscribe(ctx, t)
		s.send(&fanoutv1.SubscribeRequest{Request: &fanoutv1.SubscribeRequest_Subscriber{Subscriber: name}})
		w := s.start(4, &fanoutv1.WatchRequest{Resource: config, Subscriber: &fanoutv1.Subscriber{Instance: "ignored"}})
		_, synced := w.catchUp(fanoutv1.WatchResponse_CATCH_UP_RESET)
		await := func(what string, applied *fanoutv1.Position, message string) {
			t.Helper()
			var got *fanoutv1.WatcherStatus
			if !poll.Wait(ctx, func() bool {
				got = in.awaitWatcher(ctx, t, func(*fanoutv1.WatcherStatus) bool { return true })
				return cmp.Equal(got.GetApplied(), applied, protocmp.Transform()) && got.GetError().GetMessage() == message
			}) {
				t.Fatalf("%s: got %v", what, got)
			}
			if diff := cmp.Diff(name, got.GetSubscriber(), protocmp.Transform()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		}
		await("without a report", nil, "")
		first := synced.GetPosition()
		s.report(4, first, nil)
		await("up to date", first, "")

		at := in.put(ctx, t, config, "a", "bad")
		second := w.wantEvents(modified("a", "bad", at))
		s.report(4, first, failed("bad"))
		await("failed", first, "bad")
		s.report(4, nil, failed("worse"))
		await("another error", first, "worse")
		s.report(4, &fanoutv1.Position{Epoch: second.GetEpoch(), Revision: second.GetRevision() + 1}, nil)
		s.report(4, nil, failed("still"))
		await("a position that was not sent is ignored, with all of its report", first, "still")
		s.report(4, second, nil)
		await("applied", second, "")
		if n := in.server.WatchStats()[config].ReportedErrors; n != 3 {
			t.Errorf("got %d errors, want 3", n)
		}
	})
}

// A position can be reported as soon as its message has arrived.
func TestEveryPositionOfAStreamCanBeReported(t *testing.T) {
	in := start(t, settings{})
	ctx := within(t)
	s := in.subscribe(ctx, t)
	w := s.start(1, &fanoutv1.WatchRequest{Resource: config, Begin: fromNow()})
	w.next(fanoutv1.WatchResponse_KIND_BOOKMARK)
	for range 50 {
		in.put(ctx, t, config, "a", "1")
		at := w.next(fanoutv1.WatchResponse_KIND_LIVE).GetPosition()
		s.report(1, at, nil)
		in.awaitWatcher(ctx, t, func(w *fanoutv1.WatcherStatus) bool { return w.GetApplied().GetRevision() == at.GetRevision() })
	}
}

// The watches of a stream count among those that have applied a revision. A watch that nothing
// concerns need not report again.
func TestWatchesOfStreamsApplyRevisions(t *testing.T) {
	in := start(t, settings{})
	ctx := within(t)
	in.put(ctx, t, config, "a", "1")
	s := in.subscribe(ctx, t)
	s.send(&fanoutv1.SubscribeRequest{Request: &fanoutv1.SubscribeRequest_Subscriber{Subscriber: &fanoutv1.Subscriber{Instance: "i"}}})
	a := s.start(1, &fanoutv1.WatchRequest{Resource: config})
	_, synced := a.catchUp(fanoutv1.WatchResponse_CATCH_UP_RESET)
	quiet := s.start(2, &fanoutv1.WatchRequest{Resource: config, Scope: exactly("quiet")})
	_, quietAt := quiet.catchUp(fanoutv1.WatchResponse_CATCH_UP_RESET)
	s.report(1, synced.GetPosition(), nil)
	s.report(2, quietAt.GetPosition(), nil)
	at := in.put(ctx, t, config, "a", "2")
	listener := in.watchApplied(ctx, t, nil, at)
	listener.await(counts{Watches: 2, Applied: 1, Pending: []string{"i"}})
	s.report(1, a.wantEvents(modified("a", "2", at)), nil)
	listener.await(counts{Watches: 2, Applied: 2})
}

// A watch of a stream has failed to apply a revision only if its client has attempted it.
func TestAttemptsOfStreamsCount(t *testing.T) {
	in := start(t, settings{})
	ctx := within(t)
	in.put(ctx, t, config, "a", "1")
	s := in.subscribe(ctx, t)
	s.send(&fanoutv1.SubscribeRequest{Request: &fanoutv1.SubscribeRequest_Subscriber{Subscriber: &fanoutv1.Subscriber{Instance: "i"}}})
	w := s.start(1, &fanoutv1.WatchRequest{Resource: config})
	_, synced := w.catchUp(fanoutv1.WatchResponse_CATCH_UP_RESET)
	bad := in.put(ctx, t, config, "a", "bad")
	atBad := w.wantEvents(modified("a", "bad", bad))
	fixed := in.put(ctx, t, config, "a", "2")
	atFixed := w.wantEvents(modified("a", "2", fixed))
	report := func(attempted *fanoutv1.Position) {
		t.Helper()
		s.send(&fanoutv1.SubscribeRequest{Request: &fanoutv1.SubscribeRequest_Report_{Report: &fanoutv1.SubscribeRequest_Report{
			WatchId: 1, Applied: synced.GetPosition(), Error: failed("not a number"), Attempted: attempted,
		}}})
	}
	ofBad, ofFixed := in.watchApplied(ctx, t, nil, bad), in.watchApplied(ctx, t, nil, fixed)
	report(atBad)
	ofBad.await(counts{Watches: 1, Failed: 1, Pending: []string{"i"}})
	ofFixed.await(counts{Watches: 1, Pending: []string{"i"}})
	report(&fanoutv1.Position{Epoch: atFixed.GetEpoch(), Revision: fixed + 1}) // was not sent, so the report is ignored
	report(atFixed)
	ofFixed.await(counts{Watches: 1, Failed: 1, Pending: []string{"i"}})
}

// Operators see how many watches fail, whichever method they have, until these report no error or
// end.
func TestFailingWatchesAreCountedUntilTheyEnd(t *testing.T) {
	in := start(t, settings{})
	ctx := within(t)
	await := func(total, failing int64) {
		t.Helper()
		var got *fanoutv1.ListWatchersResponse
		if !poll.Wait(ctx, func() bool {
			got = in.watchers(ctx, t, &fanoutv1.ListWatchersRequest{Resource: config})
			return got.GetTotal() == total && got.GetFailing() == failing
		}) {
			t.Fatalf("got %d watches and %d that fail, want %d and %d", got.GetTotal(), got.GetFailing(), total, failing)
		}
	}
	ofWatch, end := context.WithCancel(ctx)
	defer end()
	w, at := in.named(ofWatch, t, "w", nil)
	in.report(ctx, t, w, at, failed("x"))
	await(1, 1)
	in.report(ctx, t, w, at, failed("y"))
	ofStream, lose := context.WithCancel(ctx)
	defer lose()
	s := in.subscribe(ofStream, t)
	for id := range uint64(4) {
		s.start(id, &fanoutv1.WatchRequest{Resource: config}).catchUp(fanoutv1.WatchResponse_CATCH_UP_RESET)
		s.report(id, nil, failed("x"))
	}
	await(5, 5)
	s.report(0, nil, failed("y"))
	s.report(1, at, nil)
	s.report(2, at, nil)
	s.report(2, nil, failed("x"))
	await(5, 4)
	s.stop(1)
	await(4, 4)
	s.stop(2)
	await(3, 3)
	end()
	await(2, 2)
	lose()
	await(0, 0)
}

// Reports above the rate are ignored, and counted.
func TestReportsOfStreamsAreLimited(t *testing.T) {
	in := start(t, settings{limits: quota.Limits{ReportRate: 1}})
	ctx := within(t)
	s := in.subscribe(ctx, t)
	w := s.start(1, &fanoutv1.WatchRequest{Resource: config, Begin: fromNow()})
	at := w.next(fanoutv1.WatchResponse_KIND_BOOKMARK).GetPosition()
	for range 50 {
		s.report(1, at, nil)
	}
	in.awaitUsage(ctx, t, "reports are refused", func(u quota.Usage) bool { return u.Refused["max-report-rate"] > 0 })
	in.awaitWatcher(ctx, t, func(w *fanoutv1.WatcherStatus) bool { return w.GetApplied().GetRevision() == at.GetRevision() })
}
