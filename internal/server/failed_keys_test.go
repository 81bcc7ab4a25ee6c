package server_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// A client that has applied everything except the objects that it names has applied the revisions of
// all others.
func TestAnErrorCountsOnlyForTheKeysThatItNames(t *testing.T) {
	withAndWithoutCache(t, func(t *testing.T, with settings) {
		in := start(t, with)
		ctx := within(t)
		in.put(ctx, t, config, "flags/a", "1")
		w, before := in.named(ctx, t, "w", prefix("flags"))
		in.report(ctx, t, w, before, nil)
		bad := in.put(ctx, t, config, "flags/bad", "bad")
		good := in.put(ctx, t, config, "flags/new", "1")
		var at *fanoutv1.Position
		for at.GetRevision() < good {
			at = w.next(fanoutv1.WatchResponse_KIND_LIVE).GetPosition()
		}
		report := func(attempted *fanoutv1.Position, keys ...string) {
			t.Helper()
			req := &fanoutv1.ReportRequest{Watch: w.token(), Applied: before, Error: failed("not a flag"), Attempted: attempted, FailedKeys: keys}
			if _, err := in.reads.Report(ctx, req); err != nil {
				t.Fatal(err)
			}
		}
		isApplied, hasFailed, isPending := counts{Watches: 1, Applied: 1}, counts{Watches: 1, Failed: 1, Pending: []string{"w"}}, counts{Watches: 1, Pending: []string{"w"}}
		see := func(what string, scope *fanoutv1.Scope, revision int64, want counts) {
			t.Helper()
			ctx, leave := context.WithCancel(ctx)
			defer leave()
			if diff := cmp.Diff(want, in.watchApplied(ctx, t, scope, revision).next()); diff != "" {
				t.Errorf("%s: -want +got:\n%s", what, diff)
			}
		}

		report(at, "flags/bad")
		see("another key", exactly("flags/new"), good, isApplied)
		see("another key, of a revision after the error", exactly("flags/a"), good, isApplied)
		see("another key, before the error", exactly("flags/a"), before.GetRevision(), isApplied)
		see("the key", exactly("flags/bad"), bad, hasFailed)
		see("a later revision that does not concern the key", exactly("flags/bad"), good, hasFailed)
		see("a prefix with the key", prefix("flags"), good, hasFailed)
		see("a prefix that is not a path", prefix("flags/b"), good, counts{Watches: 1, Applied: 1})
		see("everything", nil, good, hasFailed)

		quiet := in.put(ctx, t, config, "other", "1")                         // does not concern the watch
		in.watchApplied(ctx, t, exactly("flags/new"), quiet).await(isApplied) // without a cache, only when etcd confirms it
		newer := in.put(ctx, t, config, "flags/new", "2")
		see("a revision that was not attempted", exactly("flags/new"), newer, isPending)
		see("the key at a revision that was not attempted", exactly("flags/bad"), newer, isPending)

		report(at)
		see("no keys", exactly("flags/new"), good, hasFailed)
		report(at, "flags/bad", "flags/new")
		see("one of several keys", exactly("flags/new"), good, hasFailed)
		see("none of several keys", exactly("flags/a"), good, isApplied)
	})
}

// On a stream of Subscribe, too, an error counts only for the keys that it names.
func TestFailedKeysOfStreamsCount(t *testing.T) {
	in := start(t, settings{})
	ctx := within(t)
	in.put(ctx, t, config, "a", "1")
	s := in.subscribe(ctx, t)
	w := s.start(1, &fanoutv1.WatchRequest{Resource: config})
	_, synced := w.catchUp(fanoutv1.WatchResponse_CATCH_UP_RESET)
	bad := in.put(ctx, t, config, "bad", "1")
	at := w.wantEvents(added("bad", "1", bad))
	report := func(keys ...string) {
		s.send(&fanoutv1.SubscribeRequest{Request: &fanoutv1.SubscribeRequest_Report_{Report: &fanoutv1.SubscribeRequest_Report{
			WatchId: 1, Applied: synced.GetPosition(), Error: failed("x"), Attempted: at, FailedKeys: keys,
		}}})
	}
	ofBad, ofOther := in.watchApplied(ctx, t, exactly("bad"), bad), in.watchApplied(ctx, t, exactly("a"), bad)
	report("bad")
	ofOther.await(counts{Watches: 1, Applied: 1})
	ofBad.await(counts{Watches: 1, Failed: 1, Pending: []string{""}})
	report("a")
	ofOther.await(counts{Watches: 1, Failed: 1, Pending: []string{""}})
	ofBad.await(counts{Watches: 1, Applied: 1})
	report("bad", "")  // is wrong, so the report is ignored
	report("bad", "b") // is not
	ofOther.await(counts{Watches: 1, Applied: 1})
	got := in.awaitWatcher(ctx, t, func(w *fanoutv1.WatcherStatus) bool { return len(w.GetFailedKeys()) == 2 })
	if got.GetAttempted().GetRevision() != bad || !got.GetReports() {
		t.Errorf("got %v", got)
	}
}

// Operators see the keys that have failed, until a report has no error.
func TestOperatorsSeeFailedKeys(t *testing.T) {
	in := start(t, settings{})
	ctx := within(t)
	at := in.put(ctx, t, config, "a", "1")
	w, position := in.named(ctx, t, "w", nil)
	see := func(what string, attempted int64, want ...string) {
		t.Helper()
		got := in.awaitWatcher(ctx, t, func(*fanoutv1.WatcherStatus) bool { return true })
		if diff := cmp.Diff(want, got.GetFailedKeys()); diff != "" || got.GetAttempted().GetRevision() != attempted {
			t.Errorf("%s: attempted %v, -want +got:\n%s", what, got.GetAttempted(), diff)
		}
	}
	report := func(req *fanoutv1.ReportRequest) error {
		req.Watch = w.token()
		_, err := in.reads.Report(ctx, req)
		return err
	}
	see("without a report", 0)
	if err := report(&fanoutv1.ReportRequest{Applied: position, Error: failed("x"), FailedKeys: []string{"b", "a"}}); err != nil {
		t.Fatal(err)
	}
	see("after an error", at, "b", "a")

	many, long := make([]string, 33), make([]string, 5)
	for i := range many {
		many[i] = strings.Repeat("k", i+1)
	}
	for i := range long {
		long[i] = strings.Repeat("k", 1000)
	}
	wantRefusal(t, report(&fanoutv1.ReportRequest{Error: failed("x"), FailedKeys: many}), invalid("failed_keys"))
	wantRefusal(t, report(&fanoutv1.ReportRequest{Error: failed("x"), FailedKeys: long}), invalid("failed_keys"))
	wantRefusal(t, report(&fanoutv1.ReportRequest{Error: failed("x"), FailedKeys: []string{"a", strings.Repeat("k", 5000)}}), invalid("failed_keys"))
	wantRefusal(t, report(&fanoutv1.ReportRequest{Error: failed("x"), FailedKeys: []string{"a", "", "b"}}), invalid("failed_keys[1]"))
	see("after wrong reports", at, "b", "a")

	if err := report(&fanoutv1.ReportRequest{Applied: position, FailedKeys: []string{"a"}}); err != nil {
		t.Fatal(err)
	}
	see("after a report without an error", 0)
}

// A key that the watch cannot have, such as one with the name of the resource before it, would hide
// the error from a gate for the object.
func TestFailedKeysAreInTheScopeOfTheWatch(t *testing.T) {
	in := start(t, settings{})
	ctx := within(t)
	in.put(ctx, t, config, "flags/a", "1")
	w, before := in.named(ctx, t, "w", prefix("flags"))
	s := in.subscribe(ctx, t)
	onStream := s.start(1, &fanoutv1.WatchRequest{Resource: config, Scope: exactly("flags/a"), Reports: true})
	_, synced := onStream.catchUp(fanoutv1.WatchResponse_CATCH_UP_RESET)
	bad := in.put(ctx, t, config, "flags/a", "bad")
	w.next(fanoutv1.WatchResponse_KIND_LIVE)
	onStream.next(fanoutv1.WatchResponse_KIND_LIVE)

	report := func(keys ...string) error {
		_, err := in.reads.Report(ctx, &fanoutv1.ReportRequest{Watch: w.token(), Applied: before, Error: failed("x"), FailedKeys: keys})
		return err
	}
	reportOnStream := func(keys ...string) {
		s.send(&fanoutv1.SubscribeRequest{Request: &fanoutv1.SubscribeRequest_Report_{Report: &fanoutv1.SubscribeRequest_Report{
			WatchId: 1, Applied: synced.GetPosition(), Error: failed("x"), FailedKeys: keys,
		}}})
	}
	gate := in.watchApplied(ctx, t, exactly("flags/a"), bad)
	for _, key := range []string{"config/flags/a", "a", "flags"} {
		wantRefusal(t, report("flags/a", key), invalid("failed_keys[1]"))
		reportOnStream("flags/a", key)
	}
	if err := report("flags/a"); err != nil {
		t.Fatal(err)
	}
	gate.await(counts{Watches: 2, Failed: 1, Pending: []string{"w", ""}})
	reportOnStream("flags/a")
	gate.await(counts{Watches: 2, Failed: 2, Pending: []string{"w", ""}})
}
