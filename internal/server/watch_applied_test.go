package server_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/testing/protocmp"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// appliedListener receives the counts of the watches that have applied a revision.
type appliedListener struct {
	t      *testing.T
	stream fanoutv1.AdminService_WatchAppliedClient
}

func (in *instance) watchApplied(ctx context.Context, t *testing.T, scope *fanoutv1.Scope, revision int64) *appliedListener {
	t.Helper()
	return in.askApplied(ctx, t, &fanoutv1.WatchAppliedRequest{Resource: config, Scope: scope, Revision: revision})
}

func (in *instance) askApplied(ctx context.Context, t *testing.T, req *fanoutv1.WatchAppliedRequest) *appliedListener {
	t.Helper()
	stream, err := in.admin().WatchApplied(ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	return &appliedListener{t, stream}
}

// counts are the numbers of a message, and the instances of the watches that are pending.
type counts struct {
	Watches, Applied, Failed int64
	Pending                  []string
	NotReporting             int64
}

func countsOf(m *fanoutv1.WatchAppliedResponse) counts {
	c := counts{Watches: m.GetWatches(), Applied: m.GetApplied(), Failed: m.GetFailed(), NotReporting: m.GetNotReporting()}
	for _, w := range m.GetPending() {
		c.Pending = append(c.Pending, w.GetSubscriber().GetInstance())
	}
	return c
}

// next returns the counts of the next message.
func (l *appliedListener) next() counts {
	l.t.Helper()
	m, err := l.stream.Recv()
	if err != nil {
		l.t.Fatal(err)
	}
	return countsOf(m)
}

// await waits for a message with the counts. It returns the message.
func (l *appliedListener) await(want counts) *fanoutv1.WatchAppliedResponse {
	l.t.Helper()
	diff := ""
	for {
		m, err := l.stream.Recv()
		if err != nil {
			l.t.Fatalf("%v; the latest message: -want +got:\n%s", err, diff)
		}
		if diff = cmp.Diff(want, countsOf(m)); diff == "" {
			return m
		}
	}
}

// named starts a watch of a subscriber with a name that reports, and returns the watch and its first
// position.
func (in *instance) named(ctx context.Context, t *testing.T, instance string, scope *fanoutv1.Scope) (*watch, *fanoutv1.Position) {
	t.Helper()
	w := in.watch(ctx, t, &fanoutv1.WatchRequest{Resource: config, Scope: scope, Subscriber: &fanoutv1.Subscriber{Instance: instance}, Reports: true})
	_, synced := w.catchUp(fanoutv1.WatchResponse_CATCH_UP_RESET)
	return w, synced.GetPosition()
}

// A watch that gets no events has applied a revision without another report. Others have to
// report it.
func TestWatchesThatHaveAppliedARevisionAreCounted(t *testing.T) {
	for name, uncached := range map[string]bool{"cached": false, "uncached": true} {
		t.Run(name, func(t *testing.T) {
			in := start(t, settings{uncached: uncached})
			ctx := within(t)
			in.put(ctx, t, config, "a/1", "1")
			concerned, first := in.named(ctx, t, "concerned", exactly("a/1"))
			quiet, position := in.named(ctx, t, "quiet", prefix("a/x"))
			in.named(ctx, t, "silent", nil)
			in.named(ctx, t, "elsewhere", prefix("b"))
			in.report(ctx, t, concerned, first, nil)
			in.report(ctx, t, quiet, position, nil)

			at := in.put(ctx, t, config, "a/1", "2")
			l := in.watchApplied(ctx, t, prefix("a"), at)
			l.await(counts{Watches: 3, Applied: 1, Pending: []string{"concerned", "silent"}})
			newer := concerned.wantEvents(modified("a/1", "2", at))
			in.report(ctx, t, concerned, newer, nil)
			l.await(counts{Watches: 3, Applied: 2, Pending: []string{"silent"}})
		})
	}
}

// A watch that has reported an error has not applied the object until the object, or a newer
// version of it, is accepted.
func TestAFailedRevisionIsAppliedWithANewerVersion(t *testing.T) {
	in := start(t, settings{})
	ctx := within(t)
	in.put(ctx, t, config, "a", "1")
	in.named(ctx, t, "oldest", nil)
	w, before := in.named(ctx, t, "w", nil)
	in.report(ctx, t, w, before, nil)
	bad := in.put(ctx, t, config, "a", "bad")
	good := in.put(ctx, t, config, "b", "good")
	for at := int64(0); at < good; {
		at = w.next(fanoutv1.WatchResponse_KIND_LIVE).GetPosition().GetRevision()
	}
	ofBad, ofGood := in.watchApplied(ctx, t, nil, bad), in.watchApplied(ctx, t, nil, before.GetRevision())
	ofBad.await(counts{Watches: 2, Pending: []string{"oldest", "w"}})
	in.report(ctx, t, w, before, failed("not a number"))
	m := ofBad.await(counts{Watches: 2, Failed: 1, Pending: []string{"w", "oldest"}})
	if diff := cmp.Diff(failed("not a number"), m.GetPending()[0].GetError(), protocmp.Transform()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	ofGood.await(counts{Watches: 2, Applied: 1, Pending: []string{"oldest"}}) // the failed object is newer

	fixed := in.put(ctx, t, config, "a", "2")
	in.report(ctx, t, w, w.wantEvents(modified("a", "2", fixed)), nil)
	ofBad.await(counts{Watches: 2, Applied: 1, Pending: []string{"oldest"}})
}

// A watch with an error has failed to apply a revision only if its client has attempted it. An
// earlier error may be what the revision corrects.
func TestAnEarlierErrorIsNoFailureOfANewerRevision(t *testing.T) {
	in := start(t, settings{})
	ctx := within(t)
	in.put(ctx, t, config, "a", "1")
	in.named(ctx, t, "oldest", nil)
	w, before := in.named(ctx, t, "w", prefix("a"))
	bad := in.put(ctx, t, config, "a/1", "bad")
	atBad := w.wantEvents(added("a/1", "bad", bad))
	in.report(ctx, t, w, before, failed("not a number"))
	elsewhere := in.put(ctx, t, config, "b", "1")
	fixed := in.put(ctx, t, config, "a/1", "2")
	ofBad, ofElsewhere, ofFixed := in.watchApplied(ctx, t, nil, bad), in.watchApplied(ctx, t, nil, elsewhere), in.watchApplied(ctx, t, nil, fixed)
	ofBad.await(counts{Watches: 2, Failed: 1, Pending: []string{"w", "oldest"}})
	ofElsewhere.await(counts{Watches: 2, Failed: 1, Pending: []string{"w", "oldest"}}) // does not concern the watch
	m := ofFixed.await(counts{Watches: 2, Pending: []string{"w", "oldest"}})
	if m.GetPending()[0].GetError() == nil {
		t.Error("the earlier error is missing")
	}

	atFixed := w.wantEvents(modified("a/1", "2", fixed))
	report := func(attempted *fanoutv1.Position) {
		t.Helper()
		req := &fanoutv1.ReportRequest{Watch: w.token(), Applied: before, Error: failed("not a number"), Attempted: attempted}
		if _, err := in.reads.Report(ctx, req); err != nil {
			t.Fatal(err)
		}
	}
	report(atBad) // crosses with the event of the correction
	ofFixed = in.watchApplied(ctx, t, nil, fixed)
	ofFixed.await(counts{Watches: 2, Pending: []string{"w", "oldest"}})
	report(atFixed)
	ofFixed.await(counts{Watches: 2, Failed: 1, Pending: []string{"w", "oldest"}})
	in.report(ctx, t, w, atFixed, nil)
	ofFixed.await(counts{Watches: 2, Applied: 1, Pending: []string{"oldest"}})
}

// An operator sees how far a client has come that goes on with other objects after an error, and since
// when it has the error that it reports again after a success.
func TestEachReportOfAPendingWatchIsSent(t *testing.T) {
	in := start(t, settings{})
	ctx := within(t)
	in.put(ctx, t, config, "a", "1")
	w, before := in.named(ctx, t, "w", nil)
	bad := in.put(ctx, t, config, "a", "bad")
	atBad := w.wantEvents(modified("a", "bad", bad))
	other := in.put(ctx, t, config, "b", "1")
	atOther := w.wantEvents(added("b", "1", other))
	report := func(err *rpcstatus.Status, attempted *fanoutv1.Position) {
		t.Helper()
		if _, err := in.reads.Report(ctx, &fanoutv1.ReportRequest{Watch: w.token(), Applied: before, Error: err, Attempted: attempted}); err != nil {
			t.Fatal(err)
		}
	}
	l := in.watchApplied(ctx, t, nil, bad)
	awaitPending := func(ok func(*fanoutv1.WatcherStatus) bool) (since time.Time) {
		t.Helper()
		for {
			m, err := l.stream.Recv()
			if err != nil {
				t.Fatal(err)
			}
			if s := m.GetPending()[0]; ok(s) {
				return s.GetErrorTime().AsTime()
			}
		}
	}
	hasAttempted := func(p *fanoutv1.Position) func(*fanoutv1.WatcherStatus) bool {
		return func(s *fanoutv1.WatcherStatus) bool { return s.GetAttempted().GetRevision() == p.GetRevision() }
	}
	report(failed("not a number"), atBad)
	awaitPending(hasAttempted(atBad))
	report(failed("not a number"), atOther)
	since := awaitPending(hasAttempted(atOther))
	report(nil, nil)
	report(failed("not a number"), atOther)
	awaitPending(func(s *fanoutv1.WatcherStatus) bool { return s.GetErrorTime().AsTime().After(since) })
}

// A revision that the server has not reached is applied by no watch.
func TestAFutureRevisionIsNotApplied(t *testing.T) {
	in := start(t, settings{})
	ctx := within(t)
	at := in.put(ctx, t, config, "a", "1")
	w, position := in.named(ctx, t, "w", prefix("x"))
	in.report(ctx, t, w, position, nil)
	l := in.watchApplied(ctx, t, nil, at+2)
	l.await(counts{Watches: 1, Pending: []string{"w"}})
	in.put(ctx, t, config, "a", "2")
	in.put(ctx, t, config, "a", "3")
	l.await(counts{Watches: 1, Applied: 1})
}

// Watches begin and end while an operator listens. Of many pending watches, the message has the
// first hundred.
func TestTheOldestPendingWatchesAreListed(t *testing.T) {
	in := start(t, settings{})
	ctx := within(t)
	at := in.put(ctx, t, config, "a", "1")
	l := in.watchApplied(ctx, t, nil, at)
	l.await(counts{})
	const watches, listed = 250, 100
	want := counts{Watches: watches, Failed: 2}
	leaving, leave := context.WithCancel(ctx)
	defer leave()
	for i := range watches {
		of := ctx
		if i == 0 {
			of = leaving
		}
		w, _ := in.named(of, t, fmt.Sprint(i), nil)
		if i == 120 || i == 240 {
			in.report(ctx, t, w, nil, failed("x"))
		}
	}
	want.Pending = []string{"120", "240"}
	for i := range listed - 2 {
		want.Pending = append(want.Pending, fmt.Sprint(i))
	}
	l.await(want)
	leave()
	want.Watches--
	want.Pending = append(append([]string{"120", "240"}, want.Pending[3:]...), fmt.Sprint(listed-2))
	l.await(want)
}

func TestWatchAppliedChecksRights(t *testing.T) {
	in := start(t, settings{policy: aliceMay + "- {subjects: [bob], verbs: [admin], resources: [" + config + "]}\n"})
	ctx := within(t)
	l := in.as(t, "bob").watchApplied(ctx, t, nil, 1)
	l.await(counts{})
	in.usePolicy(t, aliceMay)
	_, err := l.stream.Recv()
	wantRefusal(t, err, denied("admin", config))
	_, err = in.as(t, "bob").watchApplied(ctx, t, nil, 1).stream.Recv()
	wantRefusal(t, err, denied("admin", config))
}

func TestWatchAppliedRefusesBadRequests(t *testing.T) {
	in := start(t, settings{})
	call := func(ctx context.Context, req *fanoutv1.WatchAppliedRequest) error {
		stream, err := in.admin().WatchApplied(ctx, req)
		if err == nil {
			_, err = stream.Recv()
		}
		return err
	}
	ctx := within(t)
	wantRefusal(t, call(ctx, &fanoutv1.WatchAppliedRequest{}), invalid("resource"))
	wantRefusal(t, call(ctx, &fanoutv1.WatchAppliedRequest{Resource: "x"}), unknownResource("x"))
	wantRefusal(t, call(ctx, &fanoutv1.WatchAppliedRequest{Resource: config}), invalid("revision"))
	wantRefusal(t, call(ctx, &fanoutv1.WatchAppliedRequest{Resource: config, Revision: -1, Scope: prefix("/")}), invalid("scope.prefix", "revision"))
	wantRefusal(t, call(ctx, &fanoutv1.WatchAppliedRequest{Resource: config, Revision: 1, SubscriberSelector: "app in", Instance: strings.Repeat("i", 254)}), invalid("subscriber_selector", "instance"))
}

// A server that stops ends the streams of operators, too.
func TestStopEndsWatchApplied(t *testing.T) {
	in := start(t, settings{})
	ctx := within(t)
	l := in.watchApplied(ctx, t, nil, 1)
	l.await(counts{})
	in.stop(ctx)
	if _, err := l.stream.Recv(); err == nil {
		t.Error("got a message after the stop")
	} else {
		wantRefusal(t, err, draining)
	}
}
