package server_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/access"
	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server"
	"github.com/fanoutd/fanoutd/internal/server/quota"
	"github.com/fanoutd/fanoutd/test/poll"
)

// duties are what each entrance does for its watches with code of its own. An entrance that forgets one
// fails here.
var duties = map[string]func(t *testing.T, method string, e entrance){
	"Registration.SetBegan":   showsWhenItBegan,
	"Registration.BeginReset": forgetsReportsWithAReset,
	"Counters":                countsMessages,
	"SlowLog":                 logsSlowWatches,
	"WriteTracer":             tracesDeliveries,
	"Slot.BeginPart":          losesTheSlotWithTheLease,
	"Pass.Expires":            endsWhenCredentialsExpire,
	"lost credentials":        cutsOffClientsThatDoNotRead,
	"lost rights":             endsWithTheRight,
	"drain":                   drainsInTurn,
	"TimeLimit":               endsAtTheLimitOfTheServer,
	"request.TimeLimit":       endsAtTheLimitOfTheRequest,
	"LastBookmark":            endsWithABookmark,
	"OnDone":                  endsWithItsClient,
}

// Whatever its entrance, a watch begins, is observed and ends in the same way.
func TestEveryEntranceDoesItsDuties(t *testing.T) {
	t.Parallel()
	for name, duty := range duties {
		for method, e := range entrances {
			t.Run(name+method, func(t *testing.T) { duty(t, method, e) })
		}
	}
}

// fromNow starts a watch that begins now, and waits until it has begun.
func (e entrance) fromNow(ctx context.Context, t *testing.T, in *instance) *watch {
	t.Helper()
	w, _ := e.open(ctx, t, in, &fanoutv1.WatchRequest{Resource: config, Begin: fromNow()})
	w.next(fanoutv1.WatchResponse_KIND_BOOKMARK)
	return w
}

// untilTheEnd starts a watch and reads its stream until it ends. It returns the number of messages, and how
// the stream has ended.
func (e entrance) untilTheEnd(ctx context.Context, t *testing.T, in *instance, method string, req *fanoutv1.WatchRequest) (messages int, err error) {
	t.Helper()
	stream, err := in.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, method)
	if err != nil {
		return 0, err
	}
	// If the stream has ended already, RecvMsg says why.
	if err := stream.SendMsg(e.message(req)); err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	if err := stream.CloseSend(); err != nil {
		return 0, err
	}
	for {
		if err := stream.RecvMsg(&emptypb.Empty{}); err != nil {
			return messages, err
		}
		messages++
	}
}

func showsWhenItBegan(t *testing.T, _ string, e entrance) {
	in := start(t, settings{})
	ctx := within(t)
	before := time.Now()
	e.fromNow(ctx, t, in)
	if w := in.awaitWatcher(ctx, t, func(*fanoutv1.WatcherStatus) bool { return true }); w.GetSince().AsTime().Before(before) {
		t.Errorf("the watch began at %v, before the request of %v", w.GetSince().AsTime(), before)
	}
}

func forgetsReportsWithAReset(t *testing.T, _ string, e entrance) {
	in := start(t, settings{tombstones: 1, window: cacher.WindowLimits{MinChanges: 1, MaxChanges: 1}})
	ctx := within(t)
	const objects = 5
	var deletes []*fanoutv1.Operation
	for i := range objects {
		in.put(ctx, t, config, fmt.Sprint(i), "1")
		deletes = append(deletes, deleteOp(fmt.Sprint(i)))
	}
	w, report := e.open(ctx, t, in, &fanoutv1.WatchRequest{Resource: config})
	_, synced := w.catchUp(fanoutv1.WatchResponse_CATCH_UP_RESET)
	report(&fanoutv1.ReportRequest{Applied: synced.GetPosition()})
	in.awaitWatcher(ctx, t, func(s *fanoutv1.WatcherStatus) bool { return s.GetApplied() != nil })
	// The cacher lists the resource again, and no longer knows which objects are gone.
	in.seams[config].on(func(_ context.Context, method string) error {
		if method == "Next" {
			return object.ErrCompacted
		}
		return nil
	})
	if err := transact(deletes...)(ctx, in, config); err != nil {
		t.Fatal(err)
	}
	w.catchUp(fanoutv1.WatchResponse_CATCH_UP_RESET)
	in.awaitWatcher(ctx, t, func(s *fanoutv1.WatcherStatus) bool { return s.GetApplied() == nil })
}

func countsMessages(t *testing.T, _ string, e entrance) {
	in := start(t, settings{})
	ctx := within(t)
	in.put(ctx, t, config, "a", "1")
	w, _ := e.open(ctx, t, in, &fanoutv1.WatchRequest{Resource: config})
	w.catchUp(fanoutv1.WatchResponse_CATCH_UP_RESET) // three messages
	for _, text := range []string{"2", "3"} {
		w.wantEvents(modified("a", text, in.put(ctx, t, config, "a", text)))
	}
	poll.Until(t, "the messages are counted", func() bool {
		s := in.server.WatchStats()[config]
		return s.Begun == 1 && s.Messages == 5 && s.Events == 3 && s.Bytes > 0 && s.Latency.Sum > 0 && s.CatchUps[object.Reset][0] == 1
	})
}

func logsSlowWatches(t *testing.T, method string, e entrance) {
	in := start(t, settings{slow: time.Nanosecond}) // every request is slow
	ctx := within(t)
	w, _ := e.open(ctx, t, in, &fanoutv1.WatchRequest{Resource: config})
	w.catchUp(fanoutv1.WatchResponse_CATCH_UP_RESET)
	for _, what := range []string{"first message", "catch-up"} {
		in.lines.await(ctx, t, line{"msg": "slow", "method": method, "what": what})
	}
}

func tracesDeliveries(t *testing.T, _ string, e entrance) {
	tracer := &recordingTracer{}
	in := start(t, settings{configure: func(cfg *server.Config) {
		for i := range cfg.Resources {
			cfg.Resources[i].Tracer = tracer
		}
	}})
	ctx := within(t)
	w := e.fromNow(ctx, t, in)
	id := in.awaitWatcher(ctx, t, func(*fanoutv1.WatcherStatus) bool { return true }).GetId()
	for _, text := range []string{"1", "2"} { // alone, and as a member of a group
		at := object.Revision(in.put(ctx, t, config, text, text))
		w.wantEvents(added(text, text, int64(at)))
		poll.Until(t, "the message is traced", func() bool {
			found, _ := tracer.of(at)
			return len(found) == 1 && found[0].Watcher == id
		})
	}
}

func losesTheSlotWithTheLease(t *testing.T, method string, e entrance) {
	in := start(t, settings{
		limits:  quota.Limits{Snapshots: 1},
		prepare: func(s *server.Server) { s.SetSlotTimes(poll.Patience, 50*time.Millisecond) },
	})
	ctx := within(t)
	in.someObjects(ctx, t, 8)
	e.unread(ctx, t, in, method, &fanoutv1.WatchRequest{Resource: config})
	poll.Until(t, "a snapshot is being sent", func() bool { return in.server.WatchStats()[config].CatchUps[object.Reset][0] == 1 })
	w, _ := e.open(ctx, t, in, &fanoutv1.WatchRequest{Resource: config})
	w.catchUp(fanoutv1.WatchResponse_CATCH_UP_RESET)
}

// expiringTokens accepts every token for a while.
type expiringTokens struct{ life time.Duration }

func (v *expiringTokens) Verify(_ context.Context, token string) (access.Pass, error) {
	return access.Pass{Identity: access.Identity{Name: token, Method: access.JWT}, Expires: time.Now().Add(v.life)}, nil
}

func endsWhenCredentialsExpire(t *testing.T, method string, e entrance) {
	tokens := &expiringTokens{life: poll.Patience}
	in := start(t, settings{configure: func(cfg *server.Config) { cfg.Authenticator = &access.Authenticator{JWTs: tokens} }}).as(t, "ann")
	ctx := within(t)
	in.awaitLoaded(ctx, t)
	for life := 100 * time.Millisecond; ; life *= 2 {
		tokens.life = life
		began, err := e.untilTheEnd(ctx, t, in, method, &fanoutv1.WatchRequest{Resource: config, Begin: fromNow()})
		wantRefusal(t, err, unauthenticated)
		if began > 0 || t.Failed() {
			return
		}
		// The machine is so busy that the credentials expired before the watch began.
	}
}

func cutsOffClientsThatDoNotRead(t *testing.T, method string, e entrance) {
	verifier := &revocableTokens{exempt: "alice"}
	in := start(t, settings{grace: 50 * time.Millisecond, configure: func(cfg *server.Config) {
		cfg.Authenticator = &access.Authenticator{JWTs: verifier}
	}})
	ctx := within(t)
	operator := in.as(t, "alice")
	operator.awaitLoaded(ctx, t)
	e.unread(ctx, t, in, method, &fanoutv1.WatchRequest{Resource: config, Begin: fromNow()})
	in.awaitUsage(ctx, t, "the watch has begun", func(u quota.Usage) bool { return u.Watchers == 1 })
	poll.Until(t, "a message waits for the client", func() bool {
		operator.put(ctx, t, config, "a", strings.Repeat("x", 512<<10))
		return in.server.WatchStats()[config].Blocked == 1
	})
	verifier.revoked.Store(true)
	in.server.Reexamine()
	in.awaitUsage(ctx, t, "the watch has gone", func(u quota.Usage) bool { return u.Watchers == 0 })
}

func endsWithTheRight(t *testing.T, _ string, e entrance) {
	in := start(t, settings{policy: bobMay("watch", config, "")})
	ctx := within(t)
	in.as(t, "alice").awaitLoaded(ctx, t)
	w := e.fromNow(ctx, t, in.as(t, "bob"))
	in.usePolicy(t, aliceMay)
	w.wantDenied(denied("watch", config))
}

func drainsInTurn(t *testing.T, _ string, e entrance) {
	in := start(t, settings{drainPeriod: 10 * time.Millisecond})
	ctx := within(t)
	w := e.fromNow(ctx, t, in)
	in.server.Drain(ctx)
	if m := w.next(fanoutv1.WatchResponse_KIND_DRAINING); !m.GetResumeAtOnce() || m.GetPosition().GetRevision() == 0 {
		t.Errorf("got %v, want a position at which to resume at once", m)
	}
	if _, err := w.stream.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("got the end %v, want UNAVAILABLE", err)
	}
}

// On a busy machine, the stream may reach its limit before it has the watch.
func endsAtTheLimitOfTheServer(t *testing.T, _ string, e entrance) {
	etcd := openEtcd(t, 0)
	retryWithMoreTime(t, 200*time.Millisecond, func(t *testing.T, limit time.Duration) error {
		in := startOver(t, etcd, settings{timeLimit: limit})
		in.awaitLoaded(within(t), t)
		w, _ := e.open(within(t), t, in, &fanoutv1.WatchRequest{Resource: config, Begin: fromNow()})
		_, _, err := w.untilLimited()
		return err
	})
}

func endsAtTheLimitOfTheRequest(t *testing.T, _ string, e entrance) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	in := start(t, settings{})
	in.awaitLoaded(within(t), t)
	retryWithMoreTime(t, time.Second, func(t *testing.T, limit time.Duration) error {
		w, _ := e.open(within(t), t, in, &fanoutv1.WatchRequest{Resource: config, Begin: fromNow(), TimeLimit: durationpb.New(limit)})
		_, _, err := w.untilLimited()
		return err
	})
}

func endsWithABookmark(t *testing.T, method string, e entrance) {
	in := start(t, settings{})
	in.awaitLoaded(within(t), t)
	retryWithMoreTime(t, 500*time.Millisecond, func(t *testing.T, limited time.Duration) error {
		ctx, cancel := context.WithTimeout(within(t), limited) // the deadline of the client
		defer cancel()
		messages, err := e.untilTheEnd(ctx, t, in, method, &fanoutv1.WatchRequest{Resource: config, Begin: fromNow()})
		if status.Code(err) != codes.DeadlineExceeded || messages < 2 {
			return fmt.Errorf("got %d messages and then %w, want a bookmark at the beginning and before the end", messages, err)
		}
		return nil
	})
}

func endsWithItsClient(t *testing.T, _ string, e entrance) {
	in := start(t, settings{})
	ctx, cancel := context.WithCancel(within(t))
	defer cancel()
	e.fromNow(ctx, t, in)
	cancel()
	in.wantNoUsage(within(t), t)
}
