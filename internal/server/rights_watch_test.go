package server_test

import (
	"io"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// wantDenied checks that the watch ends with the refusal and without another message.
func (w *watch) wantDenied(want refusal) {
	w.t.Helper()
	m, err := w.stream.Recv()
	if err == nil {
		w.t.Fatalf("got message %v after the right was revoked, want an error", m)
	}
	if err == io.EOF {
		w.t.Fatalf("got stream end OK, want %v", want)
	}
	wantRefusal(w.t, err, want)
}

// A watch ends when its right is revoked, but not when another policy still grants it.
// After the right returns, the client resumes and misses nothing.
func TestAWatchEndsWhenItsRightIsRevoked(t *testing.T) {
	for name, with := range map[string]settings{"cached": {}, "uncached": {uncached: true}} {
		t.Run(name, func(t *testing.T) {
			with.policy = bobMay("watch", config, ", prefixes: [team]")
			in := start(t, with)
			ctx := within(t)
			alice, bob := in.as(t, "alice"), in.as(t, "bob")
			retrying(t, func() error {
				_, err := alice.reads.List(ctx, &fanoutv1.ListRequest{Resource: config})
				return err
			})
			at := alice.put(ctx, t, config, "team/a", "1")
			request := &fanoutv1.WatchRequest{Resource: config, Scope: prefix("team"), Consistency: minRevision(at)}
			a, b := alice.watch(ctx, t, request), bob.watch(ctx, t, request)
			a.catchUp(fanoutv1.WatchResponse_CATCH_UP_RESET)
			b.catchUp(fanoutv1.WatchResponse_CATCH_UP_RESET)
			in.usePolicy(t, bobMay("watch", config, "")) // grants more than before
			at = alice.put(ctx, t, config, "team/a", "2")
			a.wantEvents(modified("team/a", "2", at))
			position := b.wantEvents(modified("team/a", "2", at))

			in.usePolicy(t, bobMay("watch", config, ", keys: [team/a]"))
			b.wantDenied(denied("watch", config))
			at = alice.put(ctx, t, config, "team/a", "3")
			a.wantEvents(modified("team/a", "3", at))
			wantRefusal(t, first(ctx, bob, request), denied("watch", config))

			in.usePolicy(t, bobMay("watch", config, ", prefixes: [team]"))
			back := bob.watch(ctx, t, &fanoutv1.WatchRequest{Resource: config, Scope: prefix("team"), Begin: after(position)})
			if events, _ := back.catchUp(fanoutv1.WatchResponse_CATCH_UP_REPLAY); len(events) != 1 || events[0] != modified("team/a", "3", at) {
				t.Errorf("got events %v, want only the one of revision %d", events, at)
			}
		})
	}
}

// A revoked right also ends the watch of a client that has stopped reading. When the
// client reads again, it receives the reason after the messages that were already sent.
func TestARevokedRightEndsWatchesOfClientsThatDoNotRead(t *testing.T) {
	anonymous := aliceMay + "- {subjects: [anonymous], verbs: [watch], resources: [config]}\n"
	in := start(t, settings{policy: anonymous})
	ctx := within(t)
	alice := in.as(t, "alice")
	alice.awaitLoaded(ctx, t)
	s := openRaw(ctx, t, in.address, &fanoutv1.WatchRequest{Resource: config, Begin: fromNow()}, 4<<10)
	s.readFrames()
	large := strings.Repeat("x", 512<<10)
	for range 3 {
		alice.put(ctx, t, config, "a", large)
	}
	alice.awaitWatcher(ctx, t, (*fanoutv1.WatcherStatus).GetBlocked)
	in.usePolicy(t, aliceMay)
	for alice.watchers(ctx, t, &fanoutv1.ListWatchersRequest{}).GetTotal() != 0 {
	}
	s.grant(t, wideOpen-4<<10)
	all, err := s.await(ctx, t, "the stream ends", func(*rawStream) bool { return false })
	if status.Code(err) != codes.Unauthenticated {
		t.Errorf("got stream end %v, want UNAUTHENTICATED", err)
	}
	for _, m := range all {
		if m.GetKind() == fanoutv1.WatchResponse_KIND_DRAINING || len(m.GetEvents()) > 1 {
			t.Errorf("got a %v message with %d events, want no DRAINING and at most one event", m.GetKind(), len(m.GetEvents()))
		}
	}
	wantRefusal(t, first(ctx, in, &fanoutv1.WatchRequest{Resource: config}), unauthenticated)
}

// Events that wait for a watcher when its right is revoked are not sent, although they
// happened before.
func TestPendingEventsAreNotSentAfterARightIsRevoked(t *testing.T) {
	in := start(t, settings{policy: aliceMay + "- {subjects: [anonymous], verbs: [watch], resources: [config]}\n"})
	ctx := within(t)
	alice := in.as(t, "alice")
	alice.awaitLoaded(ctx, t)
	s := openRaw(ctx, t, in.address, &fanoutv1.WatchRequest{Resource: config, Begin: fromNow()}, 4<<10)
	s.readFrames()
	large := strings.Repeat("x", 512<<10)
	for range 2 { // gRPC accepts one message, however large it is; the second one blocks
		alice.put(ctx, t, config, "a", large)
	}
	alice.awaitWatcher(ctx, t, (*fanoutv1.WatcherStatus).GetBlocked)
	alice.put(ctx, t, config, "late", "1")
	alice.awaitWatcher(ctx, t, func(w *fanoutv1.WatcherStatus) bool { return w.GetLagEvents() > 0 })
	in.usePolicy(t, aliceMay)
	s.grant(t, wideOpen-4<<10)
	all, err := s.await(ctx, t, "the stream ends", func(*rawStream) bool { return false })
	if code := status.Code(err); code != codes.Unauthenticated && code != codes.DeadlineExceeded {
		t.Errorf("got stream end %v, want UNAUTHENTICATED or DEADLINE_EXCEEDED", err)
	}
	for _, e := range eventsOf(all) {
		if e.Key == "late" {
			t.Errorf("got event %v after the right was revoked, want none", e)
		}
	}
}

// The policy changes after a watch was authorized and before it is registered. The watch
// must end nevertheless.
func TestWatchThatBeginsWhileThePolicyChangesIsDenied(t *testing.T) {
	in := start(t, settings{policy: bobMay("watch", config, "")})
	ctx := within(t)
	alice, bob := in.as(t, "alice"), in.as(t, "bob")
	alice.awaitLoaded(ctx, t)
	asked := newGate("Revision")
	in.seams[config].on(asked.pass)
	t.Cleanup(asked.open)
	ended := make(chan error, 1)
	go func() { ended <- first(ctx, bob, &fanoutv1.WatchRequest{Resource: config}) }()
	asked.await(ctx, t) // the watch is authorized but not yet registered
	in.usePolicy(t, aliceMay)
	asked.open()
	wantRefusal(t, <-ended, denied("watch", config))
}

// Watches begin while the policy changes. None of them outlives its right.
func TestWatchesThatRaceWithPoliciesEnd(t *testing.T) {
	with, without := bobMay("watch", config, ""), aliceMay
	in := start(t, settings{policy: with})
	ctx := within(t)
	alice, bob := in.as(t, "alice"), in.as(t, "bob")
	alice.awaitLoaded(ctx, t)
	for range 30 {
		in.usePolicy(t, with)
		const many = 8
		ended := make(chan error, many)
		for range many {
			go func() {
				stream, err := bob.reads.Watch(ctx, &fanoutv1.WatchRequest{Resource: config, Begin: fromNow()})
				for err == nil {
					_, err = stream.Recv()
				}
				ended <- err
			}()
		}
		in.usePolicy(t, without)
		for range many {
			select {
			case err := <-ended:
				wantRefusal(t, err, denied("watch", config))
			case <-ctx.Done():
				t.Fatal("a watch goes on after its right was revoked")
			}
		}
	}
}
