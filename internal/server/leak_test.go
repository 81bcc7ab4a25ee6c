package server_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/access"
	"github.com/fanoutd/fanoutd/internal/access/policy"
	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/apierr"
)

// bobReads is a policy that lets bob read the prefix "shared".
var bobReads = bobMay("get, list, watch", config, ", prefixes: [shared]")

// wantShared checks that bob received events of all the given keys, and none outside the
// prefix "shared".
func wantShared(t *testing.T, what string, events []event, keys ...string) {
	t.Helper()
	got := map[string]bool{}
	for _, e := range events {
		got[e.Key] = true
		if !strings.HasPrefix(e.Key, "shared/") {
			t.Errorf("%s: bob got %v, want only keys in shared/", what, e)
		}
	}
	for _, key := range keys {
		if !got[key] {
			t.Errorf("%s: bob got no event of %s, want one", what, key)
		}
	}
}

// Watches share feeds and parts of catch-ups only with watches that have the same scope,
// so these leak nothing. Another client's position gives no access either.
func TestSharedFeedsAndCatchUpsLeakNothing(t *testing.T) {
	for name, with := range map[string]settings{
		"cached":   {},
		"uncached": {uncached: true},
		// With a window of one change, positions leave it at once.
		"narrow": {window: cacher.WindowLimits{MinChanges: 1, MaxChanges: 1}},
	} {
		for _, delivery := range []fanoutv1.Delivery{fanoutv1.Delivery_DELIVERY_EVERY, fanoutv1.Delivery_DELIVERY_LATEST} {
			t.Run(fmt.Sprintf("%s/%v", name, delivery), func(t *testing.T) {
				with.policy = bobReads
				in := start(t, with)
				ctx := within(t)
				alice, bob := in.as(t, "alice"), in.as(t, "bob")
				retrying(t, func() error {
					_, err := alice.reads.List(ctx, &fanoutv1.ListRequest{Resource: config})
					return err
				})
				for _, key := range []string{"secret/a", "secret/b", "shared/a", "shared/b", "shared", "sharedx"} {
					alice.put(ctx, t, config, key, "1")
				}
				at := alice.revision(ctx, t)
				request := func(scope *fanoutv1.Scope) *fanoutv1.WatchRequest {
					return &fanoutv1.WatchRequest{Resource: config, Scope: scope, Delivery: delivery, PreviousObject: true, Consistency: minRevision(at)}
				}
				wide, same := alice.watch(ctx, t, request(nil)), alice.watch(ctx, t, request(prefix("shared")))
				narrow := bob.watch(ctx, t, request(prefix("shared")))
				if events, _ := wide.catchUp(fanoutv1.WatchResponse_CATCH_UP_RESET); len(events) != 6 {
					t.Errorf("alice got snapshot %v, want 6 objects", events)
				}
				_, begun := same.catchUp(fanoutv1.WatchResponse_CATCH_UP_RESET)
				events, _ := narrow.catchUp(fanoutv1.WatchResponse_CATCH_UP_RESET)
				wantShared(t, "snapshot", events, "shared/a", "shared/b")
				if d := in.dispatchers[config]; d != nil && d.Interests() != 2 {
					t.Errorf("got %d interests, want 2: bob shares one of alice's", d.Interests())
				}
				// Bob cannot join the feeds of alice's other interests.
				for _, scope := range []*fanoutv1.Scope{nil, prefix("secret"), exactly("shared"), exactly("sharedx")} {
					wantRefusal(t, first(ctx, bob, request(scope)), denied("watch", config))
				}

				alice.put(ctx, t, config, "secret/a", "2")
				alice.put(ctx, t, config, "shared/a", "2")
				alice.delete(ctx, t, config, "secret/b")
				alice.delete(ctx, t, config, "shared/b")
				alice.delete(ctx, t, config, "sharedx")
				last := alice.put(ctx, t, config, "shared/c", "1")
				events = narrow.upTo(last)
				wantShared(t, "feed", events, "shared/a", "shared/b", "shared/c")
				wide.upTo(last)

				// Bob resumes at alice's position.
				back := request(prefix("shared"))
				back.Begin, back.Consistency = after(begun.GetPosition()), nil
				resumed := bob.watch(ctx, t, back)
				wantShared(t, "catch-up", resumed.upTo(last), "shared/a", "shared/b", "shared/c")
				back.Scope = nil
				wantRefusal(t, first(ctx, bob, back), denied("watch", config))
			})
		}
	}
}

// upTo reads until the watch has reached the revision and returns the events.
func (w *watch) upTo(revision int64) []event {
	w.t.Helper()
	var events []event
	for {
		m, err := w.stream.Recv()
		if err != nil {
			w.t.Fatal(err)
		}
		events = append(events, eventsIn(m)...)
		if m.GetPosition().GetRevision() >= revision && m.GetKind() != fanoutv1.WatchResponse_KIND_CATCH_UP_BEGIN {
			return events
		}
	}
}

// A page token gives no access. Its own request still needs the right, and any other
// request refuses the token.
func TestPageTokensGrantNothing(t *testing.T) {
	in := start(t, settings{policy: bobReads})
	ctx := within(t)
	alice, bob := in.as(t, "alice"), in.as(t, "bob")
	alice.awaitLoaded(ctx, t)
	for _, key := range []string{"a", "b", "shared/a", "shared/b", "shared/c", "z"} {
		alice.put(ctx, t, config, key, "1")
	}
	_, wide := alice.firstPage(ctx, t, &fanoutv1.ListRequest{Resource: config, PageSize: 1})
	_, narrow := alice.firstPage(ctx, t, &fanoutv1.ListRequest{Resource: config, Scope: prefix("shared"), PageSize: 1})

	_, err := bob.reads.List(ctx, wide)
	wantRefusal(t, err, denied("list", config))
	misused := proto.CloneOf(wide)
	misused.Scope = prefix("shared")
	_, err = bob.reads.List(ctx, misused)
	wantRefusal(t, err, invalid("page_token"))

	// Forged tokens do not widen the scope.
	forgeries := []string{wide.GetPageToken(), forged(t, wide.GetPageToken(), `"s":"*"`, `"s":"shared/*"`), narrow.GetPageToken()}
	for _, next := range []string{"", "a", "shared/b", "z", "~"} {
		forgeries = append(forgeries, forged(t, narrow.GetPageToken(), `"n":"shared/a\u0000"`, fmt.Sprintf(`"n":%q`, next)))
	}
	seen := 0
	for _, token := range forgeries {
		req := proto.CloneOf(narrow)
		req.PageToken, req.PageSize = token, 0
		page, err := bob.reads.List(ctx, req)
		if err != nil {
			if got := refusalIn(t, err).Reason; got != apierr.ReasonInvalidRequest {
				t.Error(err)
			}
			continue
		}
		for _, o := range page.GetObjects() {
			if seen++; !strings.HasPrefix(o.GetKey(), "shared/") {
				t.Errorf("bob got %q, want only keys in shared/", o.GetKey())
			}
		}
	}
	if seen < 5 {
		t.Errorf("bob got only %d objects, want at least 5 for the test to prove something", seen)
	}

	// The server checks the right for each page.
	_, second := bob.firstPage(ctx, t, &fanoutv1.ListRequest{Resource: config, Scope: prefix("shared"), PageSize: 1})
	in.usePolicy(t, aliceMay)
	_, err = bob.reads.List(ctx, second)
	wantRefusal(t, err, denied("list", config))
}

// Operators see and end only the watches of resources that they administer. They cannot
// learn which other resources exist.
func TestOperatorsSeeOnlyTheirResources(t *testing.T) {
	in := start(t, settings{policy: bobMay("admin", documents, "")})
	ctx := within(t)
	alice, bob := in.as(t, "alice"), in.as(t, "bob")
	alice.awaitLoaded(ctx, t)
	others := alice.watch(ctx, t, &fanoutv1.WatchRequest{Resource: config, Scope: prefix("secret"), Begin: fromNow()})
	others.next(fanoutv1.WatchResponse_KIND_BOOKMARK)
	his := alice.watch(ctx, t, &fanoutv1.WatchRequest{Resource: documents, Begin: fromNow()})
	his.next(fanoutv1.WatchResponse_KIND_BOOKMARK)

	resp, err := bob.admin().ListResources(ctx, &fanoutv1.ListResourcesRequest{})
	if err != nil || len(resp.GetResources()) != 1 || resp.GetResources()[0].GetName() != documents {
		t.Errorf("bob got resources %v, %v; want only %s", resp.GetResources(), err, documents)
	}
	for _, order := range []fanoutv1.ListWatchersRequest_Order{fanoutv1.ListWatchersRequest_ORDER_ID, fanoutv1.ListWatchersRequest_ORDER_LAG} {
		for _, resource := range []string{"", documents} {
			seen := bob.watchers(ctx, t, &fanoutv1.ListWatchersRequest{Resource: resource, Order: order})
			if seen.GetTotal() != 1 || len(seen.GetWatchers()) != 1 || seen.GetWatchers()[0].GetRequest().GetResource() != documents {
				t.Errorf("bob got watchers %v, want only the one of %s", seen, documents)
			}
		}
	}
	for _, resource := range []string{config, "unknown"} {
		_, err := bob.admin().ListWatchers(ctx, &fanoutv1.ListWatchersRequest{Resource: resource})
		wantRefusal(t, err, denied("admin", resource))
	}

	end := func(id string) bool {
		resp, err := bob.admin().EndWatcher(ctx, &fanoutv1.EndWatcherRequest{Id: id})
		if err != nil {
			t.Fatal(err)
		}
		return resp.GetEnded()
	}
	if end(alice.watchers(ctx, t, &fanoutv1.ListWatchersRequest{Resource: config}).GetWatchers()[0].GetId()) {
		t.Error("bob ended a watch of a resource that he does not administer")
	}
	if !end(alice.watchers(ctx, t, &fanoutv1.ListWatchersRequest{Resource: documents}).GetWatchers()[0].GetId()) {
		t.Error("bob could not end a watch of a resource that he administers")
	}
	his.drained()
	at := alice.put(ctx, t, config, "secret/a", "1")
	others.wantEvents(added("secret/a", "1", at))
}

// Random requests under random policies never reveal a key without a right on it.
func TestRequestsRevealOnlyKeysThatThePolicyGrants(t *testing.T) {
	in := start(t, settings{policy: aliceMay})
	ctx := within(t)
	alice := in.as(t, "alice")
	alice.awaitLoaded(ctx, t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	path := func() string {
		segments := make([]string, 1+random.IntN(3))
		for i := range segments {
			segments[i] = []string{"a", "b", "ab"}[random.IntN(3)]
		}
		return strings.Join(segments, "/")
	}
	begin := &fanoutv1.Position{Epoch: in.epoch(ctx, t), Revision: in.revision(ctx, t)}
	for range 60 {
		if key := path(); random.IntN(4) > 0 {
			alice.put(ctx, t, config, key, "1")
		} else if _, err := alice.writes.Delete(ctx, &fanoutv1.DeleteRequest{Resource: config, Delete: &fanoutv1.DeleteOperation{Key: key}}); err != nil {
			t.Fatal(err)
		}
	}
	now := in.revision(ctx, t)
	bob := in.as(t, "bob")
	who := access.Identity{Name: "bob", Method: access.JWT}
	granted := 0
	for range 150 {
		text := bobMay("get, list, watch", config, fmt.Sprintf(", keys: [%s, %s], prefixes: [%s]", path(), path(), path()))
		in.usePolicy(t, text)
		mine := readPolicy(t, text)
		scope := []*fanoutv1.Scope{nil, prefix(path()), prefix(path()), exactly(path()), exactly(path())}[random.IntN(5)]
		var revealed []string
		list, err := bob.reads.List(ctx, &fanoutv1.ListRequest{Resource: config, Scope: scope, StartKey: []string{"", path()}[random.IntN(2)]})
		for _, o := range list.GetObjects() {
			revealed = append(revealed, o.GetKey())
		}
		req := &fanoutv1.WatchRequest{Resource: config, Scope: scope}
		if random.IntN(2) == 0 {
			req.Begin = after(begin)
		}
		events, watchErr := bob.readUpTo(ctx, req, now)
		for _, e := range events {
			revealed = append(revealed, e.Key)
		}
		if (err == nil) != (watchErr == nil) {
			t.Fatalf("scope %v: got %v for a list and %v for a watch, want the same decision", scope, err, watchErr)
		}
		if err == nil {
			granted++
		}
		for _, key := range revealed {
			if !mine.Grants(who, policy.Question{Verb: policy.Get, Resource: config, Scope: object.ExactKey(object.Key(key))}) {
				t.Fatalf("scope %v revealed %q to bob in spite of the policy\n%s", scope, key, text)
			}
		}
	}
	if granted < 10 {
		t.Errorf("got only %d granted requests, want at least 10 for the test to prove something", granted)
	}
}

// readUpTo starts a watch, reads until it has caught up with the revision, and returns the
// events.
func (in *instance) readUpTo(ctx context.Context, req *fanoutv1.WatchRequest, revision int64) ([]event, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := in.reads.Watch(ctx, req)
	if err != nil {
		return nil, err
	}
	var events []event
	for {
		m, err := stream.Recv()
		if err != nil {
			return nil, err
		}
		events = append(events, eventsIn(m)...)
		if m.GetKind() == fanoutv1.WatchResponse_KIND_SYNCED && m.GetPosition().GetRevision() >= revision {
			return events, nil
		}
	}
}
