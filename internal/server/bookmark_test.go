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

// bookmarkInterval is short, so that the tests are, and long in comparison to what
// a write takes to get through.
const bookmarkInterval = 300 * time.Millisecond

// Who watches what nobody writes to, or what it would not be shown, learns all the
// same that time goes by: within two intervals its position is that of a write
// elsewhere. Then the position can be resumed at though the write is long gone
// from everywhere.
//
// Here bookmarks are counted, which a client can do; to the moment it is in
// package dispatch that the two intervals are looked at.
func TestBookmarkableAdvancesPastWritesElsewhere(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	in := start(t, settings{})
	unhurried(t, bookmarkInterval, func(t *testing.T, interval time.Duration) error { return in.advances(t, interval) })
}

// advances returns an error if a bookmark of one of many watchers, with this interval,
// does not know what it should.
func (in *instance) advances(t *testing.T, interval time.Duration) error {
	t.Helper()
	ctx, leave := context.WithTimeout(t.Context(), patience)
	defer leave()
	in.putLabelled(t, "team/a", "1", "prod")
	here := &fanoutv1.Position{Epoch: in.epoch(ctx, t), Revision: in.revision(ctx, t)}

	// Within one interval comes a bookmark that knows of a write to the same
	// resource. A resource that is not written to has to ask how far the store is: the
	// bookmark of the first interval does that and does not wait for the answer; that
	// of the second has it, if the store answers within an interval. One more may have
	// been on its way while the write was answered.
	const onItsWay = 1
	const sameResource, otherResource = onItsWay + 1, onItsWay + 2
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
	heard := map[string]int{}
	for name, inbox := range inboxes {
		heard[name] = len(inbox.received())
	}
	for name, inbox := range inboxes {
		all := inbox.await(ctx, t, func(all []*fanoutv1.WatchResponse) bool { return len(all) >= heard[name]+most[name] })
		last := all[heard[name]+most[name]-1]
		if last.GetPosition().GetRevision() < written {
			return fmt.Errorf("%s: bookmark %d after the write of revision %d is at %v", name, most[name], written, last.GetPosition())
		}
		for _, m := range all[heard[name]:] {
			if m.GetKind() != fanoutv1.WatchResponse_KIND_BOOKMARK || len(m.GetEvents()) > 0 {
				t.Errorf("%s: want nothing but bookmarks, got %v", name, m)
			}
		}
	}

	last := inboxes["other labels"].received()
	w := in.watch(ctx, t, &fanoutv1.WatchRequest{
		Resource: config, LabelSelector: "env=prod", Begin: after(last[len(last)-1].GetPosition()), EveryEvent: true,
	})
	if events, _ := w.catchUp(fanoutv1.WatchResponse_CATCH_UP_REPLAY); len(events) > 0 {
		t.Errorf("after the position of a bookmark there is %v", events)
	}
	w.wantEvents(modified("team/a", "2", in.putLabelled(t, "team/a", "2", "prod")))
	return nil
}

// A watch that brings events all the time has no need of bookmarks, and one that
// has not asked for them gets none. How long the writes take is out of our hands:
// a bookmark between two of them is in order if there was silence for so long.
func TestBookmarksComeInSilenceOnly(t *testing.T) {
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
	unasked := watch(&fanoutv1.WatchRequest{Scope: prefix("quiet")})

	var spoken time.Time // the server has said something since
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
				if silence := time.Since(spoken); silence < bookmarkInterval {
					t.Fatalf("a bookmark after a silence of at most %v", silence)
				}
				continue
			}
			if got := eventsIn(m); len(got) != 1 || got[0].Text != text || got[0].At != at {
				t.Fatalf("want the write at revision %d, got %v", at, m)
			}
			break
		}
		spoken = begun
	}
	for _, m := range silent.received() {
		if m.GetKind() != fanoutv1.WatchResponse_KIND_BOOKMARK {
			t.Errorf("want nothing but bookmarks, got %v", m)
		}
	}
	// The first thing that the one who has not asked hears is an event.
	unasked.wantEvents(added("quiet/a", "", in.put(ctx, t, config, "quiet/a", "")))
}

// A bookmark says that nothing has happened. Who does not hear of the store cannot
// say that.
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
	// One may have been on its way.
	if all := cut.received(); len(all) > before+1 {
		t.Errorf("while the store is away there come %v", all[before:])
	}

	in.seams[config].on(nil)
	all := cut.await(ctx, t, func(all []*fanoutv1.WatchResponse) bool {
		last := all[len(all)-1]
		return last.GetKind() == fanoutv1.WatchResponse_KIND_BOOKMARK && last.GetPosition().GetRevision() >= int64(missed.Revision)
	})
	told := false
	for _, m := range all {
		if m.GetPosition().GetRevision() >= int64(missed.Revision) && !told && len(m.GetEvents()) == 0 {
			t.Errorf("%v comes before the event that it claims to be behind", m)
		}
		told = told || len(m.GetEvents()) > 0
	}
	if !told {
		t.Error("what was written meanwhile is never told")
	}
}

// A watch that ends hears a last time where it is: shortly before the deadline that
// its client gave, and before the limit.
func TestBookmarkableBeforeTheEnd(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	in := start(t, settings{timeLimit: time.Hour})
	in.awaitLoaded(within(t), t)
	unhurried(t, 2*time.Second, func(t *testing.T, limited time.Duration) error { return in.endsWithABookmark(t, limited) })
}

// endsWithABookmark returns an error if one of three watches that last so long ends
// without a word about where it is. They have a tenth of the time to be told.
func (in *instance) endsWithABookmark(t *testing.T, limited time.Duration) error {
	t.Helper()
	ctx, leave := context.WithTimeout(t.Context(), patience+limited)
	defer leave()
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
			return fmt.Errorf("%s: the stream ends with %w", name, err)
		}
		if len(all) != 2+len(c.kinds) {
			return fmt.Errorf("%s: got %v", name, all)
		}
		for i, m := range all[2:] {
			if m.GetKind() != c.kinds[i] || m.GetPosition().GetRevision() < written {
				return fmt.Errorf("%s: message %d, want %v at revision %d or later, got %v", name, i+2, c.kinds[i], written, m)
			}
		}
	}
	return nil
}
