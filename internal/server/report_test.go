package server_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/testing/protocmp"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/server/apierr"
	"github.com/fanoutd/fanoutd/internal/server/quota"
)

// token returns the name of the watch in reports.
func (w *watch) token() string {
	w.t.Helper()
	header, err := w.stream.Header()
	if err != nil {
		w.t.Fatal(err)
	}
	values := header.Get("fanout-watch")
	if len(values) != 1 {
		w.t.Fatalf("got %d tokens in the header, want 1", len(values))
	}
	return values[0]
}

// report reports for a watch.
func (in *instance) report(ctx context.Context, t *testing.T, w *watch, applied *fanoutv1.Position, failed *rpcstatus.Status) {
	t.Helper()
	if _, err := in.reads.Report(ctx, &fanoutv1.ReportRequest{Watch: w.token(), Applied: applied, Error: failed}); err != nil {
		t.Fatal(err)
	}
}

// unknownWatch refuses reports for watches that do not exist.
var unknownWatch = refusal{Code: codes.NotFound, Reason: apierr.ReasonWatchNotFound}

// failed is an error that a client reports.
func failed(message string) *rpcstatus.Status {
	return &rpcstatus.Status{Code: int32(codes.InvalidArgument), Message: message}
}

func TestOperatorsSeeReports(t *testing.T) {
	in := start(t, settings{})
	ctx := within(t)
	in.put(ctx, t, config, "a", "1")
	name := &fanoutv1.Subscriber{Instance: "shop-7 (blue)", Labels: map[string]string{"app.kubernetes.io/name": "shop", "tier": ""}}
	w := in.watch(ctx, t, &fanoutv1.WatchRequest{Resource: config, Subscriber: name})
	_, synced := w.catchUp(fanoutv1.WatchResponse_CATCH_UP_RESET)
	see := func() *fanoutv1.WatcherStatus {
		t.Helper()
		return in.awaitWatcher(ctx, t, func(*fanoutv1.WatcherStatus) bool { return true })
	}
	want := func(what string, got *fanoutv1.WatcherStatus, applied *fanoutv1.Position, err *rpcstatus.Status) {
		t.Helper()
		seen := &fanoutv1.WatcherStatus{Subscriber: got.GetSubscriber(), Applied: got.GetApplied(), Error: got.GetError()}
		want := &fanoutv1.WatcherStatus{Subscriber: name, Applied: applied, Error: err}
		if diff := cmp.Diff(want, seen, protocmp.Transform()); diff != "" {
			t.Errorf("%s: -want +got:\n%s", what, diff)
		}
		if (got.GetErrorTime() != nil) != (err != nil) || (got.GetAppliedLag() != nil) != (applied != nil) {
			t.Errorf("%s: got %v", what, got)
		}
	}
	got := see()
	want("without a report", got, nil, nil)
	if got.GetRequest().GetSubscriber() != nil {
		t.Errorf("got the name in the request %v, too", got.GetRequest())
	}

	first := synced.GetPosition()
	in.report(ctx, t, w, first, nil)
	got = see()
	want("up to date", got, first, nil)
	if got.GetAppliedLag().AsDuration() != 0 {
		t.Errorf("got an applied lag of %v, want 0", got.GetAppliedLag().AsDuration())
	}

	at := in.put(ctx, t, config, "a", "bad")
	w.wantEvents(modified("a", "bad", at))
	in.report(ctx, t, w, nil, failed("no good"))
	got = see()
	want("failed", got, first, failed("no good"))
	if got.GetAppliedLag().AsDuration() <= 0 || got.GetLagEvents() != 0 {
		t.Errorf("got %v, want a lag of what was applied only", got)
	}
	since := got.GetErrorTime().AsTime()
	in.report(ctx, t, w, first, failed("no good"))
	if got = see(); !got.GetErrorTime().AsTime().Equal(since) {
		t.Errorf("got the time %v of an error that was repeated, want %v", got.GetErrorTime().AsTime(), since)
	}
	in.report(ctx, t, w, first, failed("worse"))
	if got = see(); !got.GetErrorTime().AsTime().After(since) {
		t.Errorf("got the time %v of another error, want one after %v", got.GetErrorTime().AsTime(), since)
	}

	at = in.put(ctx, t, config, "a", "good")
	newer := w.wantEvents(modified("a", "good", at))
	in.report(ctx, t, w, newer, nil)
	got = see()
	want("a newer version", got, newer, nil)
	if got.GetAppliedLag().AsDuration() != 0 {
		t.Errorf("got an applied lag of %v, want 0", got.GetAppliedLag().AsDuration())
	}

	in.report(ctx, t, w, nil, &rpcstatus.Status{Code: 2, Message: strings.Repeat("x", 5000)})
	if got := see().GetError().GetMessage(); len(got) != 1024 {
		t.Errorf("got a message of %d bytes, want 1024", len(got))
	}
}

func TestBadReportsAreRefused(t *testing.T) {
	etcd := openEtcd(t, 0)
	in, other := startOver(t, etcd, settings{}), startOver(t, etcd, settings{})
	ctx := within(t)
	at := in.put(ctx, t, config, "a", "1")
	watchCtx, leave := context.WithCancel(ctx)
	defer leave()
	w := in.watch(watchCtx, t, &fanoutv1.WatchRequest{Resource: config})
	_, synced := w.catchUp(fanoutv1.WatchResponse_CATCH_UP_RESET)
	token, epoch := w.token(), synced.GetPosition().GetEpoch()
	if second := in.watch(watchCtx, t, &fanoutv1.WatchRequest{Resource: config}).token(); second == token {
		t.Error("two watches have the same token")
	}
	in.report(ctx, t, w, synced.GetPosition(), failed("no good"))
	before := in.watchers(ctx, t, &fanoutv1.ListWatchersRequest{}).GetWatchers()[0]

	raw, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		t.Fatal(err)
	}
	requests := []badRequest[fanoutv1.ReportRequest]{
		{name: "no watch", request: &fanoutv1.ReportRequest{}, want: invalid("watch")},
		{name: "rubbish", request: &fanoutv1.ReportRequest{Watch: "x"}, want: unknownWatch},
		{name: "the id", request: &fanoutv1.ReportRequest{Watch: before.GetId()}, want: unknownWatch},
		{name: "too long", request: &fanoutv1.ReportRequest{Watch: token + "A"}, want: unknownWatch},
		{
			name: "negative", want: invalid("applied.revision"),
			request: &fanoutv1.ReportRequest{Watch: token, Applied: &fanoutv1.Position{Epoch: epoch, Revision: -1}},
		},
		{name: "no epoch", request: &fanoutv1.ReportRequest{Watch: token, Applied: &fanoutv1.Position{Revision: at}}, want: invalid("applied.epoch")},
		{
			name: "not sent yet", want: invalid("applied"),
			request: &fanoutv1.ReportRequest{Watch: token, Applied: &fanoutv1.Position{Epoch: epoch, Revision: synced.GetPosition().GetRevision() + 1}},
		},
		{
			name: "attempted what was not sent", want: invalid("attempted"),
			request: &fanoutv1.ReportRequest{Watch: token, Error: failed("x"), Attempted: &fanoutv1.Position{Epoch: epoch, Revision: synced.GetPosition().GetRevision() + 1}},
		},
		{name: "attempted without an epoch", request: &fanoutv1.ReportRequest{Watch: token, Attempted: &fanoutv1.Position{Revision: at}}, want: invalid("attempted.epoch")},
		{name: "OK", request: &fanoutv1.ReportRequest{Watch: token, Error: &rpcstatus.Status{Message: "x"}}, want: invalid("error.code")},
		{name: "unknown code", request: &fanoutv1.ReportRequest{Watch: token, Error: &rpcstatus.Status{Code: 17}}, want: invalid("error.code")},
	}
	for i := range raw {
		guess := append([]byte(nil), raw...)
		guess[i] ^= 1
		requests = append(requests, badRequest[fanoutv1.ReportRequest]{
			name: fmt.Sprint("guess ", i), want: unknownWatch,
			request: &fanoutv1.ReportRequest{Watch: base64.RawURLEncoding.EncodeToString(guess)},
		})
	}
	testBadRequests(t, in, in.reads.Report, requests)
	_, err = other.reads.Report(ctx, &fanoutv1.ReportRequest{Watch: token})
	wantRefusal(t, err, unknownWatch)
	after := in.watchers(ctx, t, &fanoutv1.ListWatchersRequest{}).GetWatchers()[0]
	for _, s := range []*fanoutv1.WatcherStatus{before, after} {
		s.AppliedLag, s.Lag = nil, nil
	}
	if diff := cmp.Diff(before, after, protocmp.Transform()); diff != "" {
		t.Errorf("the refused reports have changed the watch, -before +after:\n%s", diff)
	}

	leave()
	for in.watchers(ctx, t, &fanoutv1.ListWatchersRequest{}).GetTotal() > 0 {
	}
	_, err = in.reads.Report(ctx, &fanoutv1.ReportRequest{Watch: token})
	wantRefusal(t, err, unknownWatch)
}

// A report may cross with a RESET or with a new epoch. Its position then means nothing.
func TestPositionsThatMeanNothingAreIgnored(t *testing.T) {
	in := start(t, settings{})
	ctx := within(t)
	in.put(ctx, t, config, "a", "1")
	w := in.watch(ctx, t, &fanoutv1.WatchRequest{Resource: config})
	_, synced := w.catchUp(fanoutv1.WatchResponse_CATCH_UP_RESET)
	in.report(ctx, t, w, synced.GetPosition(), failed("x"))
	for _, p := range []*fanoutv1.Position{{Epoch: synced.GetPosition().GetEpoch()}, {Epoch: "earlier", Revision: 1 << 40}, {}} {
		in.report(ctx, t, w, p, nil)
		got := in.watchers(ctx, t, &fanoutv1.ListWatchersRequest{}).GetWatchers()[0]
		if diff := cmp.Diff(synced.GetPosition(), got.GetApplied(), protocmp.Transform()); diff != "" || got.GetError() != nil {
			t.Errorf("after the report of %v: got %v", p, got)
		}
	}
}

// Only the caller that has opened a watch reports for it, however it shows who it is. All
// anonymous callers are the same, so they need the token.
func TestOnlyTheCallerOfAWatchReportsForIt(t *testing.T) {
	log := openAudit(t)
	anonymousMay := aliceMay + "- {subjects: [anonymous, bob], verbs: [watch], resources: [" + config + "]}\n"
	in := start(t, settings{policy: anonymousMay, audit: log.Log})
	ctx := within(t)
	alice, bob := in.as(t, "alice"), in.as(t, "bob")
	alice.put(ctx, t, config, "a", "1")
	of := func(caller *instance) *watch {
		w := caller.watch(ctx, t, &fanoutv1.WatchRequest{Resource: config})
		w.catchUp(fanoutv1.WatchResponse_CATCH_UP_RESET)
		return w
	}
	alices, anonymous := of(alice), of(in)
	in.as(t, "alice", "admins").report(ctx, t, alices, nil, failed("x"))
	request := &fanoutv1.ReportRequest{Watch: alices.token()}
	_, err := bob.reads.Report(ctx, request)
	wantRefusal(t, err, denied("report", config))
	_, err = in.reads.Report(ctx, request)
	wantRefusal(t, err, refusal{Code: codes.Unauthenticated, Reason: apierr.ReasonUnauthenticated})
	if got := alice.watchers(ctx, t, &fanoutv1.ListWatchersRequest{}).GetWatchers()[0]; got.GetError() == nil {
		t.Error("a refused report has cleared the error")
	}
	(&instance{reads: fanoutv1.NewFanoutServiceClient(dial(t, in.address))}).report(ctx, t, anonymous, nil, failed("x"))
	in.stop(ctx)
	want := []line{
		{"msg": "write", "method": "fanout.v1.StoreService/Put", "identity": "alice", "authentication": "jwt", "resource": config, "keys": []any{"a"}, "code": "OK"},
		{"msg": "denied", "method": "fanout.v1.FanoutService/Report", "identity": "bob", "authentication": "jwt", "resource": config, "code": "PermissionDenied", "reason": "PERMISSION_DENIED"},
		{"msg": "denied", "method": "fanout.v1.FanoutService/Report", "resource": config, "code": "Unauthenticated", "reason": "UNAUTHENTICATED"},
	}
	got := log.lines(t)
	delete(got[0], "revision")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("audit log: -want +got:\n%s", diff)
	}
}

// Reports have a limit of their own.
func TestTheRateOfReportsIsLimitedForEachClient(t *testing.T) {
	in := start(t, settings{limits: quota.Limits{ReportRate: 0.001, RequestRate: 0.001, RequestBurst: 3}})
	ctx := within(t)
	one, other := fanoutv1.NewFanoutServiceClient(in.dialFrom(t, host(2))), fanoutv1.NewFanoutServiceClient(in.dialFrom(t, host(3)))
	report := func(reads fanoutv1.FanoutServiceClient) error {
		_, err := reads.Report(ctx, &fanoutv1.ReportRequest{Watch: "x"})
		return err
	}
	wantRefusal(t, report(one), unknownWatch)
	for range 5 {
		wantRefusal(t, report(one), exhausted(apierr.MaxReportRate, map[string]string{"limit": "0.001", "client": host(2)}))
	}
	wantRefusal(t, report(other), unknownWatch)
	for range 3 {
		if _, err := one.List(ctx, &fanoutv1.ListRequest{Resource: config, Consistency: anyRevision()}); err != nil && refusalIn(t, err).Reason != apierr.ReasonNotReady {
			t.Errorf("reports count as requests: %v", err)
		}
	}
}

// A client may report a position as soon as it has received it, even if the server has not
// counted the message yet.
func TestReportsAreAsFastAsMessages(t *testing.T) {
	in := start(t, settings{})
	ctx := within(t)
	in.put(ctx, t, config, "a", "0")
	const watches, events = 8, 50
	var reporting sync.WaitGroup
	defer reporting.Wait()
	last := make(chan int64, 1)
	for range watches {
		w := in.watch(ctx, t, &fanoutv1.WatchRequest{Resource: config})
		token := w.token()
		reporting.Go(func() {
			for n := 0; n < events; {
				m, err := w.stream.Recv()
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := in.reads.Report(ctx, &fanoutv1.ReportRequest{Watch: token, Applied: m.GetPosition()}); err != nil {
					t.Errorf("%v: %v", m.GetKind(), err)
					return
				}
				if m.GetKind() == fanoutv1.WatchResponse_KIND_LIVE {
					n += len(m.GetEvents())
				}
			}
		})
	}
	in.awaitAll(ctx, t, watches, func(w *fanoutv1.WatcherStatus) bool { return w.GetState() == fanoutv1.WatcherStatus_STATE_LIVE })
	for i := range events {
		at := in.put(ctx, t, config, "a", fmt.Sprint(i))
		if i == events-1 {
			last <- at
		}
	}
	reporting.Wait()
	want := <-last
	for _, w := range in.watchers(ctx, t, &fanoutv1.ListWatchersRequest{}).GetWatchers() {
		if got := w.GetApplied().GetRevision(); got != want || w.GetAppliedLag().AsDuration() != 0 {
			t.Errorf("got applied revision %d with lag %v, want %d", got, w.GetAppliedLag().AsDuration(), want)
		}
	}
}

// awaitAll waits until there are so many watches and all satisfy the condition.
func (in *instance) awaitAll(ctx context.Context, t *testing.T, watches int, is func(*fanoutv1.WatcherStatus) bool) {
	t.Helper()
	for {
		all := in.watchers(ctx, t, &fanoutv1.ListWatchersRequest{}).GetWatchers()
		n := 0
		for _, w := range all {
			if is(w) {
				n++
			}
		}
		if n == watches {
			return
		}
	}
}

// Reports wake nothing, however many there are. The server counts the watches that have applied
// a revision only while an operator listens, and at most twice a second.
func TestReportsWakeNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	in := start(t, settings{})
	ctx := within(t)
	at := in.put(ctx, t, config, "a", "1")
	const subscribers = 1000
	var tokens []string
	var position *fanoutv1.Position
	for range subscribers {
		w := in.watch(ctx, t, &fanoutv1.WatchRequest{Resource: config})
		_, synced := w.catchUp(fanoutv1.WatchResponse_CATCH_UP_RESET)
		tokens, position = append(tokens, w.token()), synced.GetPosition()
	}
	messages := func() (n int64) {
		for _, w := range in.watchers(ctx, t, &fanoutv1.ListWatchersRequest{}).GetWatchers() {
			n += w.GetMessages()
		}
		return n
	}
	reportAll := func() {
		t.Helper()
		var reporting sync.WaitGroup
		for i := range 4 {
			reporting.Go(func() {
				for j := i; j < len(tokens); j += 4 {
					if _, err := in.reads.Report(ctx, &fanoutv1.ReportRequest{Watch: tokens[j], Applied: position}); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		reporting.Wait()
	}
	before := messages()
	reportAll()
	if n := in.server.AppliedCounts(); n != 0 {
		t.Errorf("the server has counted the watches %d times although nobody listens", n)
	}

	began := time.Now()
	listenCtx, leave := context.WithCancel(ctx)
	defer leave()
	listener, err := in.admin().WatchApplied(listenCtx, &fanoutv1.WatchAppliedRequest{Resource: config, Revision: at})
	if err != nil {
		t.Fatal(err)
	}
	first, err := listener.Recv()
	if err != nil {
		t.Fatal(err)
	}
	if first.GetApplied() != subscribers || first.GetWatches() != subscribers {
		t.Errorf("got %d of %d watches, want all of %d", first.GetApplied(), first.GetWatches(), subscribers)
	}
	reportAll()
	if n, most := in.server.AppliedCounts(), int64(time.Since(began)/(500*time.Millisecond))+1; n > most {
		t.Errorf("the server has counted the watches %d times in %v, want at most %d times", n, time.Since(began), most)
	}
	leave()
	if _, err := listener.Recv(); err == nil {
		t.Error("got another message although nothing has changed")
	}
	if n := messages() - before; n != 0 {
		t.Errorf("the watches were sent %d messages because of the reports", n)
	}
}
