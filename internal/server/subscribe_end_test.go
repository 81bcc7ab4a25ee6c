package server_test

import (
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/access"
	"github.com/fanoutd/fanoutd/internal/server"
	"github.com/fanoutd/fanoutd/internal/server/apierr"
	"github.com/fanoutd/fanoutd/test/poll"
)

// A revoked right ends the watches of a stream that needed it, without a last position. Others
// continue. A denied start is refused, and leaves a record in the audit log.
func TestARevokedRightEndsOnlyItsWatches(t *testing.T) {
	withAndWithoutCache(t, func(t *testing.T, with settings) {
		log := openAudit(t)
		with.audit, with.policy = log.Log, bobMay("watch", config, ", prefixes: [team, own]")
		in := start(t, with)
		ctx := within(t)
		alice, bob := in.as(t, "alice"), in.as(t, "bob")
		alice.put(ctx, t, config, "team/a", "1")
		s := bob.subscribe(ctx, t)
		team := s.start(1, &fanoutv1.WatchRequest{Resource: config, Scope: prefix("team"), Begin: fromNow()})
		own := s.start(2, &fanoutv1.WatchRequest{Resource: config, Scope: prefix("own"), Begin: fromNow()})
		for _, w := range []*watch{team, own} {
			w.next(fanoutv1.WatchResponse_KIND_BOOKMARK)
		}
		s.start(3, &fanoutv1.WatchRequest{Resource: config}).wantRefused(denied("watch", config))

		in.usePolicy(t, bobMay("watch", config, ", prefixes: [own]"))
		team.wantDenied(denied("watch", config))
		at := alice.put(ctx, t, config, "own/a", "1")
		own.wantEvents(added("own/a", "1", at))
		s.start(1, &fanoutv1.WatchRequest{Resource: config, Scope: prefix("team")}).wantRefused(denied("watch", config))
		in.stop(ctx)
		n := 0
		for _, l := range log.lines(t) {
			if l["method"] == "fanout.v1.FanoutService/Subscribe" && l["msg"] == "denied" && l["resource"] == config && l["identity"] == "bob" {
				n++
			}
		}
		if n != 3 {
			t.Errorf("got %d records of denied watches, want 3", n)
		}
	})
}

// A right that is lost while a start waits for etcd refuses the start.
func TestARightThatIsLostWhileAStartWaits(t *testing.T) {
	in := start(t, settings{policy: bobMay("watch", config, "")})
	ctx := within(t)
	in.as(t, "alice").awaitLoaded(ctx, t)
	s := in.as(t, "bob").subscribe(ctx, t)
	revisions := newGate("Revision")
	defer revisions.open()
	in.seams[config].on(revisions.pass)
	w := s.start(1, &fanoutv1.WatchRequest{Resource: config})
	revisions.await(ctx, t)
	in.usePolicy(t, aliceMay)
	revisions.open()
	w.wantRefused(denied("watch", config))
	in.wantNoUsage(ctx, t)
}

// Credentials that are no longer valid end the stream. Each watch first gets its last position.
func TestInvalidCredentialsEndTheStream(t *testing.T) {
	verifier := &revocableTokens{}
	in := start(t, settings{configure: func(cfg *server.Config) {
		cfg.Authenticator = &access.Authenticator{JWTs: verifier}
	}})
	ctx := metadata.AppendToOutgoingContext(within(t), "authorization", "Bearer somebody")
	s := in.subscribe(ctx, t)
	w := s.start(1, &fanoutv1.WatchRequest{Resource: config, Begin: fromNow()})
	now := w.next(fanoutv1.WatchResponse_KIND_BOOKMARK).GetPosition()
	verifier.revoked.Store(true)
	in.server.Reexamine()
	refused := refusal{Code: codes.Unauthenticated, Reason: apierr.ReasonUnauthenticated}
	if got := w.next(fanoutv1.WatchResponse_KIND_DRAINING).GetPosition(); got.GetRevision() < now.GetRevision() {
		t.Errorf("got last position %v, want %v or later", got, now)
	}
	w.wantDenied(refused)
	wantRefusal(t, s.end(), refused)
}

// A drain ends the watches of a stream with their last positions, and then the stream. It refuses
// starts that wait for etcd.
func TestADrainEndsStreams(t *testing.T) {
	withAndWithoutCache(t, func(t *testing.T, with settings) {
		with.drainPeriod = time.Second
		in := start(t, with)
		ctx := within(t)
		in.put(ctx, t, config, "a", "1")
		s := in.subscribe(ctx, t)
		w := s.start(1, &fanoutv1.WatchRequest{Resource: config})
		_, synced := w.catchUp(fanoutv1.WatchResponse_CATCH_UP_RESET)
		other := s.start(2, &fanoutv1.WatchRequest{Resource: config, Begin: fromNow()})
		other.next(fanoutv1.WatchResponse_KIND_BOOKMARK)
		in.server.Drain(ctx)
		for _, one := range []*watch{w, other} {
			last := one.next(fanoutv1.WatchResponse_KIND_DRAINING)
			if last.GetPosition().GetRevision() < synced.GetPosition().GetRevision() || !last.GetResumeAtOnce() {
				t.Errorf("got last message %v, want to resume at once at %v or later", last, synced.GetPosition())
			}
			if _, err := one.stream.Recv(); errors.Is(err, io.EOF) {
				t.Error("got the end of the watch with OK, want UNAVAILABLE")
			}
		}
		if err := s.end(); reasonOf(err) != apierr.ReasonDraining {
			t.Errorf("got stream end %v, want DRAINING", err)
		}
		in.wantNoUsage(ctx, t)
	})
}

// reasonOf returns the reason in a status, or "" if there is none.
func reasonOf(err error) apierr.Reason {
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok {
			return apierr.Reason(info.GetReason())
		}
	}
	return ""
}

func TestADrainRefusesStartsThatWait(t *testing.T) {
	in := start(t, settings{})
	ctx := within(t)
	in.awaitLoaded(ctx, t)
	s := in.subscribe(ctx, t)
	revisions := newGate("Revision")
	defer revisions.open()
	in.seams[config].on(revisions.pass)
	w := s.start(1, &fanoutv1.WatchRequest{Resource: config})
	revisions.await(ctx, t)
	in.server.Drain(ctx)
	w.wantRefused(draining)
	wantRefusal(t, s.end(), draining)
}

// time_limit ends its watch, and the limit of the server ends the stream, both with OK.
func TestTimeLimitsOfStreams(t *testing.T) {
	withAndWithoutCache(t, func(t *testing.T, with settings) {
		with.timeLimit = 4 * time.Second
		in := start(t, with)
		ctx := within(t)
		s := in.subscribe(ctx, t)
		long := s.start(1, &fanoutv1.WatchRequest{Resource: config, Begin: fromNow()})
		short := s.start(2, &fanoutv1.WatchRequest{Resource: config, Begin: fromNow(), TimeLimit: durationpb.New(time.Second)})
		short.next(fanoutv1.WatchResponse_KIND_BOOKMARK)
		short.wantLimited()
		// The id is free as soon as the client knows the end.
		again := s.start(2, &fanoutv1.WatchRequest{Resource: config, Begin: fromNow()})
		again.next(fanoutv1.WatchResponse_KIND_BOOKMARK)
		long.next(fanoutv1.WatchResponse_KIND_BOOKMARK)
		for _, w := range []*watch{long, again} {
			w.wantLimited()
		}
		if err := s.end(); !errors.Is(err, io.EOF) {
			t.Errorf("got stream end %v, want OK", err)
		}
		in.wantNoUsage(ctx, t)
	})
}

// Operators list the watches of streams, page by page, and end one of them.
func TestOperatorsSeeTheWatchesOfStreams(t *testing.T) {
	withAndWithoutCache(t, func(t *testing.T, with settings) {
		in := start(t, with)
		ctx := within(t)
		at := in.put(ctx, t, config, "a", "1")
		s := in.subscribe(ctx, t)
		const count = 5
		var all []*watch
		for i := range uint64(count) {
			w := s.start(i, &fanoutv1.WatchRequest{Resource: config, Scope: prefix(fmt.Sprint("p", i)), Begin: fromNow()})
			w.next(fanoutv1.WatchResponse_KIND_BOOKMARK)
			all = append(all, w)
		}
		documentsWatch := s.start(count, &fanoutv1.WatchRequest{Resource: documents, Begin: fromNow()})
		documentsWatch.next(fanoutv1.WatchResponse_KIND_BOOKMARK)
		var ids []string
		req := &fanoutv1.ListWatchersRequest{Resource: config, PageSize: 2}
		for {
			page := in.watchers(ctx, t, req)
			if page.GetTotal() != count {
				t.Errorf("got %d watches, want %d", page.GetTotal(), count)
			}
			for _, w := range page.GetWatchers() {
				want := prefix(fmt.Sprint("p", len(ids))).GetPrefix()
				if got := w.GetRequest().GetScope().GetPrefix(); got != want || w.GetPosition().GetRevision() < at || w.GetMessages() != 1 {
					t.Errorf("got %v, want scope %s, a position and a message", w, want)
				}
				ids = append(ids, w.GetId())
			}
			if req.PageToken = page.GetNextPageToken(); req.PageToken == "" {
				break
			}
		}
		if len(ids) != count {
			t.Fatalf("got %d watches, want %d", len(ids), count)
		}
		in.end(ctx, t, ids[1])
		all[1].next(fanoutv1.WatchResponse_KIND_DRAINING)
		_, err := all[1].stream.Recv()
		if reasonOf(err) != apierr.ReasonDraining {
			t.Errorf("got end %v, want DRAINING", err)
		}
		poll.Until(t, "the watch has gone", func() bool { return in.watchers(ctx, t, &fanoutv1.ListWatchersRequest{}).GetTotal() == count })
		at = in.put(ctx, t, config, "p2/a", "1")
		all[2].wantEvents(added("p2/a", "1", at))
		if n := in.server.Usage().Watchers; n != count {
			t.Errorf("got %d watches that count against the limits, want %d", n, count)
		}
		stats := in.server.WatchStats()
		if got := stats[config]; got.Live != count-1 || got.Begun != count || got.Counts.Events != 1 || stats[documents].Begun != 1 {
			t.Errorf("got statistics %+v and %+v", got, stats[documents])
		}
	})
}
