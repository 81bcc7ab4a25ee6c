package server_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/server/apierr"
	"github.com/fanoutd/fanoutd/internal/server/quota"
	"github.com/fanoutd/fanoutd/internal/store"
)

// idInUse refuses a start with the id of another watch.
var idInUse = refusal{Code: codes.AlreadyExists, Reason: apierr.ReasonWatchIDInUse}

// withAndWithoutCache runs a test on a resource with a cache and on one without.
func withAndWithoutCache(t *testing.T, test func(t *testing.T, with settings)) {
	for name, with := range map[string]settings{"cached": {}, "uncached": {uncached: true}} {
		t.Run(name, func(t *testing.T) { test(t, with) })
	}
}

// A watch of a Subscribe stream gets the same messages and the same errors as one of the Watch method,
// whatever its request.
func TestSubscribeAnswersLikeWatch(t *testing.T) {
	t.Parallel()
	for _, uncached := range []bool{false, true} {
		transcripts := map[bool]*transcript{}
		for _, subscribes := range []bool{false, true} {
			t.Run(fmt.Sprintf("uncached %v, subscribe %v", uncached, subscribes), func(t *testing.T) {
				in := startOver(t, openEtcdAlone(t, store.EmbeddedConfig{}), settings{uncached: uncached})
				ctx := within(t)
				if subscribes {
					in = in.overSubscribe(ctx, t)
				}
				transcripts[subscribes] = &transcript{in: in, refusals: map[string]refusal{}, subscribes: subscribes}
				transcripts[subscribes].scenario(ctx, t)
			})
		}
		if t.Failed() {
			return
		}
		if diff := cmp.Diff(transcripts[false].refusals, transcripts[true].refusals); diff != "" {
			t.Errorf("uncached %v, refusals, -Watch +Subscribe:\n%s", uncached, diff)
		}
		for i := range transcripts[true].answers {
			if diff := cmp.Diff(transcripts[false].answers[i], transcripts[true].answers[i], alike); diff != "" {
				t.Errorf("uncached %v, answer %d, -Watch +Subscribe:\n%s", uncached, i, diff)
			}
		}
	}
}

// Watches that have received the same share entries.
func TestWatchesOfAStreamShareEntries(t *testing.T) {
	in := start(t, settings{})
	ctx := within(t)
	at := in.put(ctx, t, config, "a", "1")
	s := in.subscribe(ctx, t)
	first, second := s.start(1, &fanoutv1.WatchRequest{Resource: config}), s.start(2, &fanoutv1.WatchRequest{Resource: config})
	for _, w := range []*watch{first, second} {
		if events, _ := w.catchUp(fanoutv1.WatchResponse_CATCH_UP_RESET); !cmp.Equal(events, []event{added("a", "1", at)}) {
			t.Errorf("got events %v, want one of revision %d", events, at)
		}
	}
	for i := range 20 {
		text := fmt.Sprint("text ", i)
		at = in.put(ctx, t, config, "a", text)
		first.wantEvents(modified("a", text, at))
		second.wantEvents(modified("a", text, at))
	}
	all := s.received()
	last := all[len(all)-1].GetEntries()
	if len(last) != 1 || len(last[0].GetWatchIds()) != 2 {
		t.Errorf("got the entries %v, want one for both watches", last)
	}
}

// All events of a transaction arrive in one response, although each key has its own watch.
func TestATransactionArrivesInOneResponse(t *testing.T) {
	in := start(t, settings{})
	ctx := within(t)
	s := in.subscribe(ctx, t)
	const keys = 64
	var all []*watch
	for i := range uint64(keys) {
		w := s.start(i, &fanoutv1.WatchRequest{Resource: config, Scope: exactly(fmt.Sprint("k/", i)), Begin: fromNow()})
		w.next(fanoutv1.WatchResponse_KIND_BOOKMARK)
		all = append(all, w)
	}
	for range 10 {
		var operations []*fanoutv1.Operation
		for i := range keys {
			operations = append(operations, putOp(fmt.Sprint("k/", i)))
		}
		resp, err := in.writes.Transact(ctx, &fanoutv1.TransactRequest{Resource: config, Operations: operations})
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range all {
			if at := w.next(fanoutv1.WatchResponse_KIND_LIVE).GetPosition().GetRevision(); at != resp.GetRevision() {
				t.Fatalf("got revision %d, want %d", at, resp.GetRevision())
			}
		}
		received := s.received()
		if last := received[len(received)-1]; len(last.GetEntries()) != keys || last.GetMore() {
			t.Fatalf("got a response with %d entries (more: %v), want one with %d", len(last.GetEntries()), last.GetMore(), keys)
		}
	}
}

// Everything that belongs to a stopped watch arrives before its end, and everything after it
// belongs to the next watch with the id.
func TestAnIDCanBeUsedAgainAfterAStop(t *testing.T) {
	withAndWithoutCache(t, func(t *testing.T, with settings) {
		in := start(t, with)
		ctx := within(t)
		in.put(ctx, t, config, "a", "1")
		b := in.put(ctx, t, config, "b", "1")
		s := in.subscribe(ctx, t)
		var older []*watch
		for i := range 30 {
			if i%5 == 0 {
				in.put(ctx, t, config, "a", fmt.Sprint(i))
			}
			older = append(older, s.start(7, &fanoutv1.WatchRequest{Resource: config, Scope: exactly("a")}))
			s.stop(7)
		}
		last := s.start(7, &fanoutv1.WatchRequest{Resource: config, Scope: exactly("b")})
		if events, _ := last.catchUp(fanoutv1.WatchResponse_CATCH_UP_RESET); !cmp.Equal(events, []event{added("b", "1", b)}) {
			t.Errorf("got events %v, want only that of key b", events)
		}
		in.put(ctx, t, config, "a", "last")
		b = in.put(ctx, t, config, "b", "2")
		last.wantEvents(modified("b", "2", b))
		for i, w := range older {
			for {
				m, err := w.stream.Recv()
				if err == io.EOF {
					break
				}
				if err != nil {
					t.Fatalf("watch %d: got end %v, want OK", i, err)
				}
				for _, e := range eventsIn(m) {
					if e.Key != "a" {
						t.Errorf("watch %d: got event %v, want only those of key a", i, e)
					}
				}
			}
		}
	})
}

// A start with an id that is in use is refused, and the watch with the id goes on.
func TestAnIDInUseIsRefused(t *testing.T) {
	in := start(t, settings{})
	ctx := within(t)
	s := in.subscribe(ctx, t)
	w := s.start(5, &fanoutv1.WatchRequest{Resource: config, Begin: fromNow()})
	w.next(fanoutv1.WatchResponse_KIND_BOOKMARK)
	s.send(startRequest(5, &fanoutv1.WatchRequest{Resource: config}))
	_, err := w.stream.Recv()
	wantRefusal(t, err, idInUse)
	s.mu.Lock()
	refused := s.watches[5]
	s.watches[5] = &subscribedWatch{s: s, id: 5} // the refusal did not end the watch
	again := &watch{t, s.watches[5]}
	s.mu.Unlock()
	if len(refused.entries) != 2 {
		t.Errorf("got entries %v, want a bookmark and the refusal", refused.entries)
	}
	at := in.put(ctx, t, config, "a", "1")
	again.wantEvents(added("a", "1", at))
}

// A start is refused for the same reasons as a Watch, and costs no work.
func TestSubscribeRefusesBadStarts(t *testing.T) {
	in := start(t, settings{})
	ctx := within(t)
	now := in.put(ctx, t, config, "a", "1")
	over := in.overSubscribe(ctx, t)
	testBadRequests(t, in, firstMessage(over), badWatches(now, in.epoch(ctx, t)))
	in.wantNoUsage(ctx, t)
	at := in.put(ctx, t, config, "a", "2")
	w := over.watch(ctx, t, &fanoutv1.WatchRequest{Resource: config})
	if events, _ := w.catchUp(fanoutv1.WatchResponse_CATCH_UP_RESET); !cmp.Equal(events, []event{added("a", "2", at)}) {
		t.Errorf("after the refusals, got events %v", events)
	}
}

// A start that waits for etcd does not delay other watches. If it is stopped meanwhile, it ends at
// once, and its id can be used again.
func TestAStartThatWaitsDelaysNoOther(t *testing.T) {
	in := start(t, settings{})
	ctx := within(t)
	in.awaitLoaded(ctx, t)
	s := in.subscribe(ctx, t)
	live := s.start(1, &fanoutv1.WatchRequest{Resource: config, Begin: fromNow()})
	live.next(fanoutv1.WatchResponse_KIND_BOOKMARK)
	revisions := newGate("Revision")
	defer revisions.open()
	in.seams[config].on(revisions.pass)

	waiting := s.start(2, &fanoutv1.WatchRequest{Resource: config, Begin: fromNow()})
	revisions.await(ctx, t)
	w := s.start(3, &fanoutv1.WatchRequest{Resource: config, Begin: fromNow(), Consistency: anyRevision()})
	w.next(fanoutv1.WatchResponse_KIND_BOOKMARK)
	at := in.put(ctx, t, config, "a", "1")
	live.wantEvents(added("a", "1", at))
	w.wantEvents(added("a", "1", at))
	if n := in.watchers(ctx, t, &fanoutv1.ListWatchersRequest{}).GetTotal(); n != 2 {
		t.Errorf("operators see %d watches, want 2 and not the one that waits", n)
	}
	s.stop(2)
	waiting.wantEnded()
	again := s.start(2, &fanoutv1.WatchRequest{Resource: config, Begin: fromNow(), Consistency: anyRevision()})
	again.next(fanoutv1.WatchResponse_KIND_BOOKMARK)
	revisions.open()
	at = in.put(ctx, t, config, "a", "2")
	for _, w := range []*watch{live, w, again} {
		w.wantEvents(modified("a", "2", at))
	}
}

// A client that has closed its side still receives. The stream ends when its last watch has ended.
func TestAStreamEndsWithItsLastWatchAfterTheClientHasClosedItsSide(t *testing.T) {
	withAndWithoutCache(t, func(t *testing.T, with settings) {
		in := start(t, with)
		ctx := within(t)
		s := in.subscribe(ctx, t)
		short := s.start(1, &fanoutv1.WatchRequest{Resource: config, Begin: fromNow(), TimeLimit: durationpb.New(time.Second)})
		if err := s.stream.CloseSend(); err != nil {
			t.Fatal(err)
		}
		short.next(fanoutv1.WatchResponse_KIND_BOOKMARK)
		at := in.put(ctx, t, config, "a", "1")
		short.wantEvents(added("a", "1", at))
		short.wantLimited()
		if err := s.end(); !errors.Is(err, io.EOF) {
			t.Errorf("got stream end %v, want OK", err)
		}

		s = in.subscribe(ctx, t)
		if err := s.stream.CloseSend(); err != nil {
			t.Fatal(err)
		}
		if err := s.end(); !errors.Is(err, io.EOF) {
			t.Errorf("without a watch, got stream end %v, want OK", err)
		}
		in.wantNoUsage(ctx, t)
	})
}

// A request that breaks the rules of the stream ends the stream.
func TestBadRequestsEndTheStream(t *testing.T) {
	in := start(t, settings{})
	ctx := within(t)
	named := func(instance string) *fanoutv1.SubscribeRequest {
		return &fanoutv1.SubscribeRequest{Request: &fanoutv1.SubscribeRequest_Subscriber{Subscriber: &fanoutv1.Subscriber{Instance: instance}}}
	}
	for name, c := range map[string]struct {
		requests []*fanoutv1.SubscribeRequest
		want     refusal
	}{
		"nothing":         {[]*fanoutv1.SubscribeRequest{{}}, invalid("request")},
		"late subscriber": {[]*fanoutv1.SubscribeRequest{named("a"), named("a")}, invalid("subscriber")},
		"bad subscriber":  {[]*fanoutv1.SubscribeRequest{named("a\nb")}, invalid("subscriber.instance")},
	} {
		t.Run(name, func(t *testing.T) {
			s := in.subscribe(ctx, t)
			for _, req := range c.requests {
				s.send(req)
			}
			wantRefusal(t, s.end(), c.want)
		})
	}
}

// A later request that is too large ends its stream with a status that says so. The other streams of
// the connection go on.
func TestALargeLaterRequestEndsItsStream(t *testing.T) {
	in := start(t, settings{})
	ctx := within(t)
	in.awaitLoaded(ctx, t)
	req := &fanoutv1.WatchRequest{Resource: config, Begin: fromNow()}
	other := in.subscribe(ctx, t).start(1, req)
	other.next(fanoutv1.WatchResponse_KIND_BOOKMARK)
	for _, size := range []int{64 << 10, 3 << 20} {
		s := in.subscribe(ctx, t)
		s.start(1, req).next(fanoutv1.WatchResponse_KIND_BOOKMARK)
		s.send(startRequest(2, &fanoutv1.WatchRequest{Resource: config, Scope: prefix(strings.Repeat("x", size)), Begin: fromNow()}))
		err := s.end()
		wantRefusal(t, err, invalid(""))
		if message := status.Convert(err).Message(); !strings.Contains(message, "larger than the window") {
			t.Errorf("got the message %q", message)
		}
	}
	at := in.put(ctx, t, config, "a", "1")
	other.wantEvents(added("a", "1", at))
	in.awaitUsage(ctx, t, "the streams have ended", func(u quota.Usage) bool { return u.Watchers == 1 })
}

// A stop or a report for an id that is not in use is ignored.
func TestRequestsForUnknownWatchesAreIgnored(t *testing.T) {
	in := start(t, settings{})
	ctx := within(t)
	s := in.subscribe(ctx, t)
	s.stop(1)
	s.report(1, &fanoutv1.Position{Epoch: "e", Revision: 1}, nil)
	s.start(1, &fanoutv1.WatchRequest{Resource: config, Begin: fromNow()}).next(fanoutv1.WatchResponse_KIND_BOOKMARK)
	if n := len(s.received()); n != 1 {
		t.Errorf("got %d responses, want only the bookmark", n)
	}
}

// A stream ends with its client, and releases everything.
func TestAStreamEndsWithItsClient(t *testing.T) {
	withAndWithoutCache(t, func(t *testing.T, with settings) {
		in := start(t, with)
		ctx, cancel := context.WithCancel(within(t))
		defer cancel()
		s := in.subscribe(ctx, t)
		for i := range uint64(3) {
			s.start(i, &fanoutv1.WatchRequest{Resource: config, Begin: fromNow(), Scope: prefix(fmt.Sprint(i))}).next(fanoutv1.WatchResponse_KIND_BOOKMARK)
		}
		cancel()
		if err := s.end(); status.Code(err) != codes.Canceled {
			t.Errorf("got stream end %v, want CANCELED", err)
		}
		ctx = within(t)
		in.lines.await(ctx, t, line{"msg": "finished call", "grpc.method": "Subscribe", "grpc.code": codes.Canceled.String()})
		in.wantNoUsage(ctx, t)
		for name, d := range in.dispatchers {
			if n := d.Interests(); n != 0 {
				t.Errorf("%s: got %d interests after the end, want 0", name, n)
			}
		}
	})
}
