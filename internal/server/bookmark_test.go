package server_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/object"
)

// bookmarkInterval is short to keep the tests short, but much longer than a write takes.
const bookmarkInterval = 300 * time.Millisecond

// A watch also advances past writes that are outside its interest: within two bookmark
// intervals its position includes them. The client can then resume at that position even
// if the window has lost everything before it.
//
// This test counts bookmarks as a client can do. Package dispatch tests the exact times.
func TestBookmarkableAdvancesPastWritesElsewhere(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	in := start(t, settings{})
	retryWithMoreTime(t, bookmarkInterval, func(t *testing.T, interval time.Duration) error { return in.advances(t, interval) })
}

// advances starts watches with the interval, and writes outside their interests. It
// returns an error if a bookmark of one of them does not include the write in time.
func (in *instance) advances(t *testing.T, interval time.Duration) error {
	t.Helper()
	ctx, leave := context.WithCancel(within(t))
	defer leave()
	in.putLabelled(t, "team/a", "1", "prod")
	here := &fanoutv1.Position{Epoch: in.epoch(ctx, t), Revision: in.revision(ctx, t)}

	// After a write to the same resource, the next bookmark includes it. A resource without
	// writes must ask the store for its revision: the first bookmark does so without waiting,
	// and the second one has the answer if it came within an interval. One more bookmark may
	// have been in flight during the write.
	const inFlight = 1
	const sameResource, otherResource = inFlight + 1, inFlight + 2
	inboxes := map[string]*inbox{}
	most := map[string]int{}
	for name, c := range map[string]struct {
		most int
		req  *fanoutv1.WatchRequest
	}{
		"another resource": {otherResource, &fanoutv1.WatchRequest{Resource: blobs}},
		"another resource, from now, latest": {otherResource, &fanoutv1.WatchRequest{
			Resource: documents, Begin: fromNow(), Delivery: fanoutv1.Delivery_DELIVERY_LATEST,
		}},
		"another resource, after a position": {otherResource, &fanoutv1.WatchRequest{Resource: blobs, Begin: after(here)}},
		"another folder":                     {sameResource, &fanoutv1.WatchRequest{Resource: config, Scope: prefix("quiet")}},
		"another key":                        {sameResource, &fanoutv1.WatchRequest{Resource: config, Scope: exactly("team/quiet")}},
		"other labels":                       {sameResource, &fanoutv1.WatchRequest{Resource: config, LabelSelector: "env=prod"}},
		"other labels, after a position": {sameResource, &fanoutv1.WatchRequest{
			Resource: config, LabelSelector: "env=prod", Begin: after(here), EveryEvent: true,
		}},
		"other fields":         {sameResource, &fanoutv1.WatchRequest{Resource: config, FieldSelector: "name!=b"}},
		"other fields, latest": {sameResource, &fanoutv1.WatchRequest{Resource: config, FieldSelector: "key=quiet", Delivery: fanoutv1.Delivery_DELIVERY_LATEST}},
	} {
		c.req.BookmarkInterval = durationpb.New(interval)
		inboxes[name], most[name] = in.watch(ctx, t, c.req).collect(), c.most
	}
	for _, inbox := range inboxes {
		inbox.await(ctx, t, func(all []*fanoutv1.WatchResponse) bool { return len(bookmarksIn(all)) > 0 })
	}

	written := in.putLabelled(t, "team/b", "1", "test")
	before := map[string]int{}
	for name, inbox := range inboxes {
		before[name] = len(inbox.received())
	}
	for name, inbox := range inboxes {
		all := inbox.await(ctx, t, func(all []*fanoutv1.WatchResponse) bool { return len(all) >= before[name]+most[name] })
		last := all[before[name]+most[name]-1]
		if last.GetPosition().GetRevision() < written {
			return fmt.Errorf("%s: got bookmark %d after the write at %v, want revision %d or later", name, most[name], last.GetPosition(), written)
		}
		for _, m := range all[before[name]:] {
			if m.GetKind() != fanoutv1.WatchResponse_KIND_BOOKMARK || len(m.GetEvents()) > 0 {
				t.Errorf("%s: got %v, want only bookmarks", name, m)
			}
		}
	}

	last := inboxes["other labels"].received()
	w := in.watch(ctx, t, &fanoutv1.WatchRequest{
		Resource: config, LabelSelector: "env=prod", Begin: after(last[len(last)-1].GetPosition()), EveryEvent: true,
	})
	if events, _ := w.catchUp(fanoutv1.WatchResponse_CATCH_UP_REPLAY); len(events) > 0 {
		t.Errorf("got events %v after the position of a bookmark, want none", events)
	}
	w.wantEvents(modified("team/a", "2", in.putLabelled(t, "team/a", "2", "prod")))
	return nil
}

// The server sends bookmarks only to watches that ask for them, and only after an interval
// without events. Writes may be slow, so a bookmark between two of them is correct if an
// interval has passed.
func TestBookmarksAreSentOnlyInSilence(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	in := start(t, settings{})
	ctx := within(t)
	interval := durationpb.New(bookmarkInterval)
	watch := func(req *fanoutv1.WatchRequest) *watch {
		req.Resource, req.Begin = config, fromNow()
		w := in.watch(ctx, t, req)
		w.next(fanoutv1.WatchResponse_KIND_BOOKMARK)
		return w
	}
	busy := watch(&fanoutv1.WatchRequest{Scope: prefix("busy"), BookmarkInterval: interval})
	silent := watch(&fanoutv1.WatchRequest{Scope: prefix("quiet"), BookmarkInterval: interval}).collect()
	plain := watch(&fanoutv1.WatchRequest{Scope: prefix("quiet")})

	var lastWrite time.Time // when the last write began; its event came later
	for i := 0; len(silent.received()) < 4; i++ {
		text := fmt.Sprint(i)
		begun := time.Now()
		at := in.put(ctx, t, config, "busy/a", text)
		for {
			m, err := busy.stream.Recv()
			if err != nil {
				t.Fatal(err)
			}
			if m.GetKind() == fanoutv1.WatchResponse_KIND_BOOKMARK {
				if silence := time.Since(lastWrite); silence < bookmarkInterval {
					t.Fatalf("got a bookmark after a silence of at most %v, want at least %v", silence, bookmarkInterval)
				}
				continue
			}
			if got := eventsIn(m); len(got) != 1 || got[0].Text != text || got[0].At != at {
				t.Fatalf("got %v, want the write at revision %d", m, at)
			}
			break
		}
		lastWrite = begun
	}
	for _, m := range silent.received() {
		if m.GetKind() != fanoutv1.WatchResponse_KIND_BOOKMARK {
			t.Errorf("got %v, want only bookmarks", m)
		}
	}
	// The first message of the watch without bookmarks is an event.
	plain.wantEvents(added("quiet/a", "", in.put(ctx, t, config, "quiet/a", "")))
}

// A bookmark promises that all earlier events were delivered. The server cannot promise
// that while it has no connection to the store, so it sends no bookmarks.
func TestHonestBookmarksStopWhileTheStoreIsAway(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	in := start(t, settings{})
	ctx := within(t)
	watch := func(resource string) *inbox {
		inbox := in.watch(ctx, t, &fanoutv1.WatchRequest{Resource: resource, BookmarkInterval: durationpb.New(bookmarkInterval)}).collect()
		inbox.await(ctx, t, func(all []*fanoutv1.WatchResponse) bool { return len(bookmarksIn(all)) > 0 })
		return inbox
	}
	cut, other := watch(config), watch(documents)

	in.seams[config].on(func(context.Context, string) error { return object.ErrUnavailable })
	missed, err := in.collections[config].Commit(ctx, []object.Op{{Kind: object.OpPut, Key: "a"}}) // ends the cacher's watch
	if err != nil {
		t.Fatal(err)
	}
	in.lines.await(ctx, t, line{"msg": "lost the store, trying again", "resource": config})
	before := len(cut.received())
	witness := len(other.received())
	other.await(ctx, t, func(all []*fanoutv1.WatchResponse) bool { return len(all) >= witness+3 })
	// One bookmark may have been in flight.
	if all := cut.received(); len(all) > before+1 {
		t.Errorf("got messages %v while the store was away, want at most one", all[before:])
	}

	in.seams[config].on(nil)
	all := cut.await(ctx, t, func(all []*fanoutv1.WatchResponse) bool {
		last := all[len(all)-1]
		return last.GetKind() == fanoutv1.WatchResponse_KIND_BOOKMARK && last.GetPosition().GetRevision() >= int64(missed.Revision)
	})
	delivered := false
	for _, m := range all {
		if m.GetPosition().GetRevision() >= int64(missed.Revision) && !delivered && len(m.GetEvents()) == 0 {
			t.Errorf("got %v before the event of revision %d", m, missed.Revision)
		}
		delivered = delivered || len(m.GetEvents()) > 0
	}
	if !delivered {
		t.Error("got no event of the write that the cacher missed, want one")
	}
}

// The server sends a last bookmark shortly before the client's deadline or the time limit
// ends a watch.
func TestBookmarkableBeforeTheEnd(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	for name, with := range map[string]settings{"cached": {}, "uncached": {uncached: true}} {
		t.Run(name, func(t *testing.T) {
			with.timeLimit = time.Hour
			in := start(t, with)
			in.awaitLoaded(within(t), t)
			retryWithMoreTime(t, 2*time.Second, func(t *testing.T, limited time.Duration) error { return in.endsWithABookmark(t, limited) })
		})
	}
}

// endsWithABookmark returns an error if one of three watches with this time limit ends
// without a last bookmark. The server has a tenth of the time to send it.
func (in *instance) endsWithABookmark(t *testing.T, limited time.Duration) error {
	t.Helper()
	ctx, leave := context.WithCancel(within(t))
	defer leave()
	// The deadline of a watch is the subject.
	hasty, cancel := context.WithTimeout(ctx, limited)
	defer cancel()

	deadline := in.watch(hasty, t, &fanoutv1.WatchRequest{Resource: config, Scope: prefix("quiet")}).collect()
	limit := in.watch(ctx, t, &fanoutv1.WatchRequest{Resource: config, Scope: prefix("quiet"), TimeLimit: durationpb.New(limited)}).collect()
	asking := in.watch(ctx, t, &fanoutv1.WatchRequest{
		Resource: config, Scope: prefix("quiet"), TimeLimit: durationpb.New(limited), BookmarkInterval: durationpb.New(time.Hour),
	}).collect()
	written := in.put(ctx, t, config, "busy/a", "")

	for name, c := range map[string]struct {
		inbox *inbox
		kinds []fanoutv1.WatchResponse_Kind // after SYNCED
		isEnd func(error) bool
	}{
		"deadline": {
			deadline,
			[]fanoutv1.WatchResponse_Kind{fanoutv1.WatchResponse_KIND_BOOKMARK},
			func(err error) bool { return status.Code(err) == codes.DeadlineExceeded },
		},
		"limit": {
			limit,
			[]fanoutv1.WatchResponse_Kind{fanoutv1.WatchResponse_KIND_BOOKMARK, fanoutv1.WatchResponse_KIND_DRAINING},
			func(err error) bool { return errors.Is(err, io.EOF) },
		},
		"limit and interval": {
			asking,
			[]fanoutv1.WatchResponse_Kind{fanoutv1.WatchResponse_KIND_BOOKMARK, fanoutv1.WatchResponse_KIND_DRAINING},
			func(err error) bool { return errors.Is(err, io.EOF) },
		},
	} {
		all, err := c.inbox.end(ctx, t)
		if !c.isEnd(err) {
			return fmt.Errorf("%s: got stream end %w", name, err)
		}
		if len(all) != 2+len(c.kinds) {
			return fmt.Errorf("%s: got %v, want %d messages", name, all, 2+len(c.kinds))
		}
		for i, m := range all[2:] {
			if m.GetKind() != c.kinds[i] || m.GetPosition().GetRevision() < written {
				return fmt.Errorf("%s: got message %d %v, want %v at revision %d or later", name, i+2, m, c.kinds[i], written)
			}
		}
	}
	return nil
}

// retryWithMoreTime runs a check that has a time limit. If the check fails, the next attempt
// has twice the time, up to 8 times the first limit: a busy machine then passes, while
// a real fault still fails.
func retryWithMoreTime(t *testing.T, at time.Duration, try func(*testing.T, time.Duration) error) {
	t.Helper()
	for most := 8 * at; ; at *= 2 {
		err := try(t, at)
		if err == nil {
			return
		}
		if at >= most {
			t.Fatal(err)
		}
		t.Logf("within %v: %v", at, err)
	}
}
