package server_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/cacher"
)

func TestWatchRefusesBadRequests(t *testing.T) {
	in := start(t, settings{})
	ctx := within(t)
	now := in.put(ctx, t, config, "a", "1")
	testBadRequests(t, in, firstMessage(in), badWatches(now, in.epoch(ctx, t)))
}

// firstMessage returns a function that starts a watch and returns its first message.
func firstMessage(in *instance) func(context.Context, *fanoutv1.WatchRequest, ...grpc.CallOption) (*fanoutv1.WatchResponse, error) {
	return func(ctx context.Context, req *fanoutv1.WatchRequest, opts ...grpc.CallOption) (*fanoutv1.WatchResponse, error) {
		stream, err := in.reads.Watch(ctx, req, opts...)
		if err != nil {
			return nil, err
		}
		return stream.Recv()
	}
}

// badWatches returns requests for watches that are refused by a server whose etcd is at a position.
func badWatches(now int64, epoch string) []badRequest[fanoutv1.WatchRequest] {
	var requests []badRequest[fanoutv1.WatchRequest]
	add := func(name string, want refusal, req *fanoutv1.WatchRequest) {
		requests = append(requests, badRequest[fanoutv1.WatchRequest]{name: name, request: req, want: want})
	}
	position := func(epoch string, revision int64) *fanoutv1.WatchRequest_After {
		return after(&fanoutv1.Position{Epoch: epoch, Revision: revision})
	}
	add("nothing", invalid("resource"), &fanoutv1.WatchRequest{})
	add("missing resource", invalid("resource"), &fanoutv1.WatchRequest{Begin: fromNow()})
	add("unknown resource", unknownResource("x"), &fanoutv1.WatchRequest{Resource: "x"})
	add("empty prefix", invalid("scope.prefix"), &fanoutv1.WatchRequest{Resource: config, Scope: prefix("")})
	add("empty key", invalid("scope.key"), &fanoutv1.WatchRequest{Resource: config, Scope: exactly("")})
	add("min_revision 0", invalid("consistency.min_revision"), &fanoutv1.WatchRequest{Resource: config, Consistency: minRevision(0)})
	add("negative min_revision", invalid("consistency.min_revision"), &fanoutv1.WatchRequest{Resource: config, Consistency: minRevision(-1)})
	add("negative position", invalid("after.revision"), &fanoutv1.WatchRequest{Resource: config, Begin: position(epoch, -1)})
	add("position without an epoch", invalid("after.epoch"), &fanoutv1.WatchRequest{Resource: config, Begin: position("", now)})
	add("position and any", invalid("consistency"), &fanoutv1.WatchRequest{
		Resource: config, Begin: position(epoch, now), Consistency: anyRevision(),
	})
	add("position and min_revision", invalid("consistency"), &fanoutv1.WatchRequest{
		Resource: config, Begin: position(epoch, now), Consistency: minRevision(now),
	})
	add("all faults are reported together", invalid("scope.prefix", "consistency.min_revision", "after.revision", "consistency"),
		&fanoutv1.WatchRequest{
			Resource: config, Scope: prefix("/"), Begin: position("", -1), Consistency: minRevision(-1),
		})
	for name, s := range map[string]struct {
		field string
		as    *fanoutv1.Subscriber
	}{
		"long instance":      {"subscriber.instance", &fanoutv1.Subscriber{Instance: strings.Repeat("x", 254)}},
		"control character":  {"subscriber.instance", &fanoutv1.Subscriber{Instance: "a\nb"}},
		"too many labels":    {"subscriber.labels", &fanoutv1.Subscriber{Labels: manyLabels(17)}},
		"bad name of label":  {"subscriber.labels", &fanoutv1.Subscriber{Labels: map[string]string{"a b": "c"}}},
		"bad value of label": {"subscriber.labels", &fanoutv1.Subscriber{Labels: map[string]string{"a": "b c"}}},
	} {
		add("subscriber/"+name, invalid(s.field), &fanoutv1.WatchRequest{Resource: config, Subscriber: s.as})
	}
	for name, path := range badPaths {
		add("prefix/"+name, invalid("scope.prefix"), &fanoutv1.WatchRequest{Resource: config, Scope: prefix(path)})
	}
	for name, revision := range map[string]int64{"next revision": now + 1, "largest revision": math.MaxInt64} {
		requests = append(requests,
			badRequest[fanoutv1.WatchRequest]{
				name: "after the " + name, want: inFuture(revision, now), asks: true,
				request: &fanoutv1.WatchRequest{Resource: config, Begin: position(epoch, revision)},
			},
			badRequest[fanoutv1.WatchRequest]{
				name: "a snapshot of the " + name, want: inFuture(revision, now), asks: true,
				request: &fanoutv1.WatchRequest{Resource: config, Consistency: minRevision(revision)},
			},
			badRequest[fanoutv1.WatchRequest]{
				name: "from now and the " + name, want: inFuture(revision, now), asks: true,
				request: &fanoutv1.WatchRequest{Resource: config, Begin: fromNow(), Consistency: minRevision(revision)},
			})
	}
	return requests
}

func TestWatchSendsASnapshotAndThenLiveEvents(t *testing.T) {
	in := start(t, settings{})
	ctx := within(t)
	b := in.put(ctx, t, config, "b", "1")
	a := in.put(ctx, t, config, "a", "1")
	w := in.watch(ctx, t, &fanoutv1.WatchRequest{Resource: config})
	events, synced := w.catchUp(fanoutv1.WatchResponse_CATCH_UP_RESET)
	if diff := cmp.Diff([]event{added("a", "1", a), added("b", "1", b)}, events); diff != "" {
		t.Errorf("snapshot in order of keys, -want +got:\n%s", diff)
	}
	if got := synced.GetPosition().GetRevision(); got != a {
		t.Errorf("got SYNCED at revision %d, want %d", got, a)
	}
	changed := in.put(ctx, t, config, "a", "2")
	w.wantEvents(modified("a", "2", changed))
	gone := in.delete(ctx, t, config, "b")
	w.wantEvents(deleted("b", "1", gone))
	again := in.put(ctx, t, config, "b", "3")
	w.wantEvents(added("b", "3", again))
}

func TestWatchAfterAPositionReplaysLaterEvents(t *testing.T) {
	in := start(t, settings{})
	ctx := within(t)
	var want []event
	var positions []int64
	for i := range 5 {
		at := in.put(ctx, t, config, fmt.Sprint(i), "x")
		positions = append(positions, at)
		want = append(want, added(fmt.Sprint(i), "x", at))
	}
	in.awaitLoaded(ctx, t) // the cache must have these writes: a watch that resumes does not wait for them
	epoch := in.epoch(ctx, t)
	for i, at := range positions {
		w := in.watch(ctx, t, &fanoutv1.WatchRequest{
			Resource: config, Begin: after(&fanoutv1.Position{Epoch: epoch, Revision: at}),
		})
		events, synced := w.catchUp(fanoutv1.WatchResponse_CATCH_UP_REPLAY)
		if diff := cmp.Diff(append([]event(nil), want[i+1:]...), events); diff != "" {
			t.Errorf("after revision %d, -want +got:\n%s", at, diff)
		}
		if got := synced.GetPosition().GetRevision(); got != positions[4] {
			t.Errorf("got SYNCED at revision %d, want %d", got, positions[4])
		}
	}
}

func TestWatchAfterALostPositionGetsADeltaOrReset(t *testing.T) {
	in := start(t, settings{window: cacher.WindowLimits{MaxChanges: 2}})
	ctx := within(t)
	first := in.put(ctx, t, config, "a", "1")
	var last int64
	for i := range 5 {
		last = in.put(ctx, t, config, "b", fmt.Sprint(i))
	}
	// A linearizable list waits until the cacher has these writes.
	in.list(ctx, t, &fanoutv1.ListRequest{Resource: config}, nothing)
	epoch := in.epoch(ctx, t)

	w := in.watch(ctx, t, &fanoutv1.WatchRequest{Resource: config, Begin: after(&fanoutv1.Position{Epoch: epoch, Revision: first})})
	events, _ := w.catchUp(fanoutv1.WatchResponse_CATCH_UP_DELTA)
	if diff := cmp.Diff([]event{added("b", "4", last)}, events); diff != "" {
		t.Errorf("DELTA, -want +got:\n%s", diff)
	}
	for name, position := range map[string]*fanoutv1.Position{
		"zero position":                     {},
		"revision 0":                        {Epoch: epoch},
		"another epoch":                     {Epoch: "another", Revision: last},
		"largest revision of another epoch": {Epoch: "another", Revision: math.MaxInt64},
	} {
		t.Run(name, func(t *testing.T) {
			w := in.watch(ctx, t, &fanoutv1.WatchRequest{Resource: config, Begin: after(position)})
			events, synced := w.catchUp(fanoutv1.WatchResponse_CATCH_UP_RESET)
			if diff := cmp.Diff([]event{added("a", "1", first), added("b", "4", last)}, events); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if got := synced.GetPosition(); got.GetEpoch() != epoch || got.GetRevision() != last {
				t.Errorf("got SYNCED at %v, want revision %d of epoch %s", got, last, epoch)
			}
		})
	}
}

func TestWatchFromNowBeginsWithABookmark(t *testing.T) {
	in := start(t, settings{})
	ctx := within(t)
	now := in.put(ctx, t, config, "a", "1")
	w := in.watch(ctx, t, &fanoutv1.WatchRequest{Resource: config, Begin: fromNow()})
	if got := w.next(fanoutv1.WatchResponse_KIND_BOOKMARK).GetPosition().GetRevision(); got != now {
		t.Errorf("got revision %d, want %d", got, now)
	}
	next := in.put(ctx, t, config, "a", "2")
	w.wantEvents(modified("a", "2", next))
}

func TestEveryWriteAfterTheHeaderIsDelivered(t *testing.T) {
	in := start(t, settings{})
	ctx := within(t)
	in.awaitLoaded(ctx, t) // a watch with "any" does not wait until the resource is loaded
	other := dial(t, in.address)
	at := in.put(ctx, t, config, "a", "begin")
	epoch := in.epoch(ctx, t)
	for i := range 20 {
		for name, req := range map[string]*fanoutv1.WatchRequest{
			"snapshot": {Resource: config},
			"any":      {Resource: config, Consistency: anyRevision()},
			"from now": {Resource: config, Begin: fromNow()},
			"after":    {Resource: config, Begin: after(&fanoutv1.Position{Epoch: epoch, Revision: at})},
		} {
			w := in.watch(ctx, t, req)
			resp, err := fanoutv1.NewStoreServiceClient(other).Put(ctx, &fanoutv1.PutRequest{
				Resource: config, Put: putText("a", fmt.Sprint(name, i)),
			})
			if err != nil {
				t.Fatal(err)
			}
			for at < resp.GetRevision() {
				m, err := w.stream.Recv()
				if err != nil {
					t.Fatalf("%s: waiting for revision %d: %v", name, resp.GetRevision(), err)
				}
				if events := eventsIn(m); len(events) > 0 {
					at = events[len(events)-1].At
				} else if m.GetPosition().GetRevision() >= resp.GetRevision() && m.GetKind() != fanoutv1.WatchResponse_KIND_SYNCED {
					t.Fatalf("%s: got position %v without the event of revision %d", name, m.GetPosition(), resp.GetRevision())
				}
			}
		}
	}
}

// The server sends the response header only after it has determined the position of a
// from_now watch. Otherwise a write after the header could be lost.
func TestTheHeaderIsSentAfterTheWatchIsRegistered(t *testing.T) {
	in := start(t, settings{})
	ctx := within(t)
	in.awaitLoaded(ctx, t)
	revisions := newGate("Revision")
	defer revisions.open()
	in.seams[config].on(revisions.pass)

	stream, err := in.reads.Watch(ctx, &fanoutv1.WatchRequest{Resource: config, Begin: fromNow()})
	if err != nil {
		t.Fatal(err)
	}
	header := make(chan error, 1)
	go func() {
		_, err := stream.Header()
		header <- err
	}()
	revisions.await(ctx, t)
	// The frames of a connection arrive in order. If the server had sent the header, it
	// would have arrived before the answer to this request. The second request gives the
	// goroutine time to report it.
	for range 2 {
		if _, err := in.reads.List(ctx, &fanoutv1.ListRequest{Resource: config, Consistency: anyRevision()}); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case <-header:
		t.Fatal("got the header before the watch was registered")
	default:
	}
	if n := in.dispatchers[config].Interests(); n != 0 {
		t.Fatalf("got %d interests, want 0 before the watch is registered", n)
	}
	revisions.open()
	if err := <-header; err != nil {
		t.Fatal(err)
	}
	if n := in.dispatchers[config].Interests(); n != 1 {
		t.Fatalf("got %d interests, want 1", n)
	}
}

func TestWatchCoversItsScope(t *testing.T) {
	in := start(t, settings{})
	ctx := within(t)
	keys := []string{"team-a", "team-a/x", "team-a/x/y", "team-ab", "team-ab/x"}
	for name, c := range map[string]struct {
		scope *fanoutv1.Scope
		want  []string
	}{
		"everything":          {nil, keys},
		"prefix":              {prefix("team-a"), []string{"team-a/x", "team-a/x/y"}},
		"prefix with a slash": {prefix("team-a/x/"), []string{"team-a/x/y"}},
		"key":                 {exactly("team-a"), []string{"team-a"}},
		"key below a key":     {exactly("team-a/x"), []string{"team-a/x"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := in.watch(ctx, t, &fanoutv1.WatchRequest{Resource: config, Scope: c.scope, Begin: fromNow()})
			w.next(fanoutv1.WatchResponse_KIND_BOOKMARK)
			var want []event
			for _, key := range keys {
				at := in.put(ctx, t, config, key, name)
				for _, covered := range c.want {
					if covered == key {
						want = append(want, added(key, name, at))
					}
				}
			}
			last := w.wantEvents(want...)

			snapshot := in.watch(ctx, t, &fanoutv1.WatchRequest{Resource: config, Scope: c.scope})
			events, synced := snapshot.catchUp(fanoutv1.WatchResponse_CATCH_UP_RESET)
			if diff := cmp.Diff(want, events); diff != "" {
				t.Errorf("snapshot, -want +got:\n%s", diff)
			}
			if synced.GetPosition().GetRevision() < last.GetRevision() {
				t.Errorf("got a snapshot of %v, want %v or newer", synced.GetPosition(), last)
			}
			for _, key := range keys {
				in.delete(ctx, t, config, key)
			}
		})
	}
}

func TestTextIsSentAsText(t *testing.T) {
	in := start(t, settings{})
	ctx := within(t)
	in.put(ctx, t, documents, "json", `{"rps": 1}`)
	w := in.watch(ctx, t, &fanoutv1.WatchRequest{Resource: documents})
	w.next(fanoutv1.WatchResponse_KIND_CATCH_UP_BEGIN)
	object := w.next(fanoutv1.WatchResponse_KIND_CATCH_UP_PART).GetEvents()[0].GetObject()
	shown, err := protojson.MarshalOptions{EmitUnpopulated: false}.Marshal(&fanoutv1.Object{Value: object.GetValue()})
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"text":"{\"rps\": 1}"}`; string(shown) != want {
		t.Errorf("got %s, want %s", shown, want)
	}

	// A value that is not UTF-8 is sent as data, whatever its content type says.
	_, err = in.writes.Put(ctx, &fanoutv1.PutRequest{Resource: config, Put: &fanoutv1.PutOperation{
		Key: "a", ContentType: "text/plain", Value: &fanoutv1.PutOperation_Data{Data: []byte("\xff")},
	}})
	if err != nil {
		t.Fatal(err)
	}
	w = in.watch(ctx, t, &fanoutv1.WatchRequest{Resource: config})
	w.next(fanoutv1.WatchResponse_KIND_CATCH_UP_BEGIN)
	object = w.next(fanoutv1.WatchResponse_KIND_CATCH_UP_PART).GetEvents()[0].GetObject()
	if data, ok := object.GetValue().(*fanoutv1.Object_Data); !ok || string(data.Data) != "\xff" {
		t.Errorf("got %v, want the bytes as data", object)
	}
}

func TestAWatchEndsWithItsClient(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(ctx context.Context) (context.Context, context.CancelFunc)
		code codes.Code
	}{
		{"cancel", context.WithCancel, codes.Canceled},
		{"deadline", func(ctx context.Context) (context.Context, context.CancelFunc) {
			// The deadline of a watch is the subject.
			return context.WithTimeout(ctx, 2*time.Second)
		}, codes.DeadlineExceeded},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := start(t, settings{})
			in.awaitLoaded(within(t), t)
			ctx, cancel := c.end(within(t))
			defer cancel()
			w := in.watch(ctx, t, &fanoutv1.WatchRequest{Resource: config, Begin: fromNow()})
			w.next(fanoutv1.WatchResponse_KIND_BOOKMARK)
			if c.code == codes.Canceled {
				cancel()
			} else {
				// The server sends a last bookmark shortly before the deadline.
				w.next(fanoutv1.WatchResponse_KIND_BOOKMARK)
			}
			_, err := w.stream.Recv()
			if status.Code(err) != c.code {
				t.Errorf("got stream end %v, want %v", err, c.code)
			}
			// The deadline passes on both sides, so either side may end the watch.
			got := in.lines.await(within(t), t, line{"msg": "finished call", "grpc.method": "Watch"})
			if code := got["grpc.code"]; code != c.code.String() && code != codes.Canceled.String() {
				t.Errorf("the handler ended with %v, want %v", code, c.code)
			}
			if n := in.dispatchers[config].Interests(); n != 0 {
				t.Errorf("got %d interests after the end, want 0", n)
			}
		})
	}
}

func TestAWatchEndsWithItsConnection(t *testing.T) {
	in := start(t, settings{})
	ctx := within(t)
	conn := dial(t, in.address)
	stream, err := fanoutv1.NewFanoutServiceClient(conn).Watch(ctx, &fanoutv1.WatchRequest{Resource: config, Begin: fromNow()})
	if err != nil {
		t.Fatal(err)
	}
	// Receive the only message. Then the end of the connection interrupts the watch and not
	// the sending of a message.
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	in.lines.await(ctx, t, line{"msg": "finished call", "grpc.method": "Watch", "grpc.code": codes.Canceled.String()})
	if n := in.dispatchers[config].Interests(); n != 0 {
		t.Errorf("got %d interests after the end, want 0", n)
	}
}

// manyLabels returns so many labels.
func manyLabels(n int) map[string]string {
	labels := map[string]string{}
	for i := range n {
		labels[fmt.Sprint("label-", i)] = "value"
	}
	return labels
}
