package server_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/testing/protocmp"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/poll"
)

func (in *instance) admin() fanoutv1.AdminServiceClient {
	return fanoutv1.NewAdminServiceClient(in.conn)
}

// status returns the status of a resource.
func (in *instance) status(ctx context.Context, t *testing.T, resource string, measure bool) *fanoutv1.ResourceStatus {
	t.Helper()
	resp, err := in.admin().ListResources(ctx, &fanoutv1.ListResourcesRequest{MeasureLag: measure})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, r := range resp.GetResources() {
		names = append(names, r.GetName())
	}
	if want := []string{blobs, config, documents}; !slices.Equal(names, want) {
		t.Fatalf("got resources %q, want %q", names, want)
	}
	return resp.GetResources()[slices.Index(names, resource)]
}

// watchers returns a page of watches.
func (in *instance) watchers(ctx context.Context, t *testing.T, req *fanoutv1.ListWatchersRequest) *fanoutv1.ListWatchersResponse {
	t.Helper()
	resp, err := in.admin().ListWatchers(ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// awaitWatcher waits until the status of the only watch satisfies the condition, and
// returns the status.
func (in *instance) awaitWatcher(ctx context.Context, t *testing.T, is func(*fanoutv1.WatcherStatus) bool) *fanoutv1.WatcherStatus {
	t.Helper()
	for {
		all := in.watchers(ctx, t, &fanoutv1.ListWatchersRequest{}).GetWatchers()
		if len(all) != 1 {
			t.Fatalf("got %d watches, want 1", len(all))
		}
		if is(all[0]) {
			return all[0]
		}
	}
}

func TestOperatorsSeeTheStatusOfAResource(t *testing.T) {
	in := start(t, settings{
		window:  cacher.WindowLimits{MinChanges: 2, MaxChanges: 2},
		schemas: map[string]object.Schema{documents: {Fields: []object.Field{{Name: "region", Path: "a"}, {Name: "host", Path: "b"}}}},
	})
	ctx := within(t)
	in.awaitLoaded(ctx, t)
	var revisions []int64
	for i := range 4 {
		revisions = append(revisions, in.put(ctx, t, config, fmt.Sprint("k", i%3), strings.Repeat("x", 100)))
	}
	in.list(ctx, t, &fanoutv1.ListRequest{Resource: config}, nothing)
	in.watch(ctx, t, &fanoutv1.WatchRequest{Resource: config, Begin: fromNow()})
	for range 2 {
		in.watch(ctx, t, &fanoutv1.WatchRequest{Resource: config, Begin: fromNow(), Scope: prefix("a")})
	}

	got := in.status(ctx, t, config, true)
	if w := got.GetWindow(); w.GetBytes() < 200 || w.GetSpan().AsDuration() <= 0 || w.GetSpan().AsDuration() > poll.Patience {
		t.Errorf("got window %v, want at least 200 bytes and a span between 0 and %v", w, poll.Patience)
	}
	if age := got.Age.AsDuration(); age <= 0 || age > poll.Patience {
		t.Errorf("got age %v, want between 0 and %v", age, poll.Patience)
	}
	got.Age, got.Window.Bytes, got.Window.Span = nil, 0, nil
	want := &fanoutv1.ResourceStatus{
		Name: config, State: fanoutv1.ResourceStatus_STATE_SERVING, Cached: true, Codec: "object",
		Position: &fanoutv1.Position{Epoch: in.epoch(ctx, t), Revision: revisions[3]}, LagRevisions: new(int64(0)),
		Objects: new(int64(3)), UndecryptableObjects: new(int64(0)), Window: &fanoutv1.WindowStatus{OldestRevision: revisions[1], Changes: 2},
		Watchers: 3, Interests: 2, Changes: new(int64(4)), // of which the window has two
	}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got := in.status(ctx, t, documents, false); !slices.Equal(got.GetFields(), []string{"region", "host"}) || got.GetCodec() != "json" {
		t.Errorf("got %v", got)
	}
}

func TestOperatorsSeeWhichServerAnswers(t *testing.T) {
	etcd := openEtcd(t, 0)
	in, other := startOver(t, etcd, settings{}), startOver(t, etcd, settings{})
	ctx := within(t)
	ask := func(in *instance) *fanoutv1.ServerStatus {
		t.Helper()
		resp, err := in.admin().ListResources(ctx, &fanoutv1.ListResourcesRequest{})
		if err != nil {
			t.Fatal(err)
		}
		return resp.GetServer()
	}
	first, again, second := ask(in), ask(in), ask(other)
	if first.GetId() != again.GetId() || first.GetId() == second.GetId() || first.GetId() == "" {
		t.Errorf("got servers %v, %v and %v, want the first two to be the same and the third another", first, again, second)
	}
	if first.GetVersion() == "" || first.GetUptime().AsDuration() <= 0 || first.GetUptime().AsDuration() >= again.GetUptime().AsDuration() {
		t.Errorf("got %v and then %v, want a version and a growing uptime", first, again)
	}
	in.watch(ctx, t, &fanoutv1.WatchRequest{Resource: config, Begin: fromNow()})
	if w := in.awaitWatcher(ctx, t, func(*fanoutv1.WatcherStatus) bool { return true }); !strings.HasPrefix(w.GetId(), first.GetId()) {
		t.Errorf("got watch ID %s, want one that names the server %s", w.GetId(), first.GetId())
	}
}

func TestOperatorsSeeAResourceWithoutACache(t *testing.T) {
	in := start(t, settings{uncached: true})
	ctx := within(t)
	written := in.put(ctx, t, config, "a", "1")
	for range 2 {
		in.watch(ctx, t, &fanoutv1.WatchRequest{Resource: config, Begin: fromNow()})
	}
	retrying(t, func() error {
		_, err := in.reads.List(ctx, &fanoutv1.ListRequest{Resource: config})
		return err
	})
	got := in.status(ctx, t, config, true)
	for got.GetState() != fanoutv1.ResourceStatus_STATE_SERVING { // the server checks the store in the background
		got = in.status(ctx, t, config, true)
	}
	want := &fanoutv1.ResourceStatus{
		Name: config, State: fanoutv1.ResourceStatus_STATE_SERVING, Codec: "object",
		Position: &fanoutv1.Position{Epoch: in.epoch(ctx, t), Revision: written}, LagRevisions: new(int64(0)),
		Watchers: 2, Interests: 2,
	}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for _, w := range in.watchers(ctx, t, &fanoutv1.ListWatchersRequest{}).GetWatchers() {
		if w.LagRevisions != nil || w.LagEvents != nil || w.GetLag() != nil {
			t.Errorf("got %v, want no lag", w)
		}
	}
}

func TestOperatorsSeeAResourceThatIsLoading(t *testing.T) {
	updates := newGate("List")
	t.Cleanup(updates.open)
	in := start(t, settings{interfere: func(resource string, s *seam) {
		if resource == config {
			s.on(updates.pass)
		}
	}})
	want := &fanoutv1.ResourceStatus{Name: config, State: fanoutv1.ResourceStatus_STATE_LOADING, Cached: true, Codec: "object"}
	if diff := cmp.Diff(want, in.status(within(t), t, config, true), protocmp.Transform()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestOperatorsSeeHowFarAResourceIsBehind(t *testing.T) {
	in := start(t, settings{})
	ctx := within(t)
	updates := in.behind(ctx, t)
	for range 5 {
		in.put(ctx, t, config, "a", "1")
	}
	updates.await(ctx, t)
	if got := in.status(ctx, t, config, true); got.LagRevisions == nil || got.GetLagRevisions() < 4 {
		t.Errorf("got %v", got)
	}
	if got := in.status(ctx, t, config, false); got.LagRevisions != nil {
		t.Errorf("got %v, want no lag without measure_lag", got)
	}
}

// Pages of watches are stable: each watch that lasts is listed exactly once, although
// others begin and end between the pages.
func TestPagesOfWatchesAreStable(t *testing.T) {
	in := start(t, settings{})
	ctx := within(t)
	var ids []string
	watch := func(resource string) context.CancelFunc {
		ctx, cancel := context.WithCancel(ctx)
		t.Cleanup(cancel)
		retrying(t, func() error {
			stream, err := in.reads.Watch(ctx, &fanoutv1.WatchRequest{Resource: resource, Begin: fromNow()})
			if err == nil {
				_, err = stream.Recv()
			}
			return err
		})
		return cancel
	}
	list := func(req *fanoutv1.ListWatchersRequest, between func()) (pages [][]string) {
		ids = nil
		for {
			resp := in.watchers(ctx, t, req)
			var page []string
			for _, w := range resp.GetWatchers() {
				page = append(page, w.GetRequest().GetResource())
				ids = append(ids, w.GetId())
			}
			pages = append(pages, page)
			if req.PageToken = resp.GetNextPageToken(); req.PageToken == "" {
				return pages
			}
			between()
		}
	}
	want := func(name string, got [][]string, want ...[]string) {
		t.Helper()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
		if n := len(slices.Compact(slices.Sorted(slices.Values(ids)))); n != len(ids) {
			t.Errorf("%s: got %d different ids for %d watches", name, n, len(ids))
		}
	}
	watch(config)
	endSecond := watch(documents)
	watch(config)
	watch(blobs)
	want("all", list(&fanoutv1.ListWatchersRequest{}, nothing), []string{config, documents, config, blobs})
	want("a resource", list(&fanoutv1.ListWatchersRequest{Resource: config}, nothing), []string{config, config})
	want("by lag", list(&fanoutv1.ListWatchersRequest{PageSize: 3, Order: fanoutv1.ListWatchersRequest_ORDER_LAG}, nothing), []string{config, documents, config})
	want("exactly two pages", list(&fanoutv1.ListWatchersRequest{PageSize: 2}, nothing), []string{config, documents}, []string{config, blobs})
	changing := func() {
		if endSecond == nil {
			return
		}
		endSecond()
		endSecond = nil
		for in.watchers(ctx, t, &fanoutv1.ListWatchersRequest{}).GetTotal() != 3 {
		}
		watch(documents)
	}
	want("while the last watch of a page ends and another one begins", list(&fanoutv1.ListWatchersRequest{PageSize: 2}, changing),
		[]string{config, documents}, []string{config, blobs}, []string{documents})
}

// Operators can list only the watches whose last report has an error. They are counted in any case.
func TestWatchesThatFailAreListed(t *testing.T) {
	in := start(t, settings{})
	ctx := within(t)
	var failing []string
	for n := range 5 {
		w, at := in.named(ctx, t, fmt.Sprint(n), nil)
		if n%2 == 1 {
			in.report(ctx, t, w, at, failed("x"))
			failing = append(failing, fmt.Sprint(n))
		}
	}
	in.watch(ctx, t, &fanoutv1.WatchRequest{Resource: documents}).catchUp(fanoutv1.WatchResponse_CATCH_UP_RESET)
	list := func(req *fanoutv1.ListWatchersRequest, total int64, failing int64) (names []string) {
		t.Helper()
		resp := in.watchers(ctx, t, req)
		if resp.GetTotal() != total || resp.GetFailing() != failing {
			t.Errorf("%v: got %d watches and %d that fail, want %d and %d", req, resp.GetTotal(), resp.GetFailing(), total, failing)
		}
		for _, w := range resp.GetWatchers() {
			names = append(names, w.GetSubscriber().GetInstance())
		}
		if next := resp.GetNextPageToken(); next != "" {
			names = append(names, "...")
		}
		return names
	}
	list(&fanoutv1.ListWatchersRequest{}, 6, 2)
	list(&fanoutv1.ListWatchersRequest{Resource: documents}, 1, 0)
	for _, order := range []fanoutv1.ListWatchersRequest_Order{fanoutv1.ListWatchersRequest_ORDER_ID, fanoutv1.ListWatchersRequest_ORDER_LAG} {
		if got := list(&fanoutv1.ListWatchersRequest{Failing: true, Order: order}, 2, 2); !slices.Equal(got, failing) {
			t.Errorf("%v: got %q, want %q", order, got, failing)
		}
	}
	if got := list(&fanoutv1.ListWatchersRequest{Failing: true, PageSize: 1}, 2, 2); !slices.Equal(got, []string{"1", "..."}) {
		t.Errorf("the first page: got %q, want 1 and another page", got)
	}
}

func TestListWatchersRefusesBadRequests(t *testing.T) {
	in := start(t, settings{})
	testBadRequests(t, in, in.admin().ListWatchers, []badRequest[fanoutv1.ListWatchersRequest]{
		{name: "resource", request: &fanoutv1.ListWatchersRequest{Resource: "x"}, want: unknownResource("x")},
		{name: "negative", request: &fanoutv1.ListWatchersRequest{PageSize: -1}, want: invalid("page_size")},
		{name: "order", request: &fanoutv1.ListWatchersRequest{Order: 9}, want: invalid("order")},
		{name: "token", request: &fanoutv1.ListWatchersRequest{PageToken: "000000000000-1"}, want: invalid("page_token")},
		{name: "rubbish", request: &fanoutv1.ListWatchersRequest{PageToken: "-"}, want: invalid("page_token")},
		{
			name: "by lag", request: &fanoutv1.ListWatchersRequest{PageToken: "x", Order: fanoutv1.ListWatchersRequest_ORDER_LAG},
			want: invalid("page_token", "page_token"),
		},
	})
	testBadRequests(t, in, in.admin().EndWatcher, []badRequest[fanoutv1.EndWatcherRequest]{
		{name: "no ID", request: &fanoutv1.EndWatcherRequest{}, want: invalid("id")},
	})
}

func TestOperatorsSeeTheStatusOfAWatch(t *testing.T) {
	in := start(t, settings{})
	ctx := within(t)
	in.put(ctx, t, config, "team/a", "1")
	reads := fanoutv1.NewFanoutServiceClient(dial(t, in.address, grpc.WithUserAgent("shop/1.2")))
	request := &fanoutv1.WatchRequest{
		Resource: config, Scope: prefix("team"), LabelSelector: "!x", FieldSelector: "name!=y",
		OmitValues: true, Delivery: fanoutv1.Delivery_DELIVERY_LATEST,
	}
	before := time.Now().Add(-time.Second) // timestamps may be rounded differently
	stream, err := reads.Watch(ctx, request)
	if err != nil {
		t.Fatal(err)
	}
	w := &watch{t, stream}
	w.catchUp(fanoutv1.WatchResponse_CATCH_UP_RESET)
	at := in.put(ctx, t, config, "team/b", "2")
	m := w.next(fanoutv1.WatchResponse_KIND_LIVE)
	in.put(ctx, t, config, "elsewhere", "3") // outside the scope of the watch

	got := in.awaitWatcher(ctx, t, func(w *fanoutv1.WatcherStatus) bool { return w.GetMessages() == 4 && !w.GetBlocked() })
	if !strings.HasPrefix(got.GetPeer(), "127.0.0.1:") || !strings.HasPrefix(got.GetUserAgent(), "shop/1.2") {
		t.Errorf("got user agent %q and peer %q, want shop/1.2 and a loopback address", got.GetUserAgent(), got.GetPeer())
	}
	if since := got.GetSince().AsTime(); since.Before(before) || since.After(time.Now().Add(time.Second)) {
		t.Errorf("got start %v, want after %v", since, before)
	}
	if got.GetId() == "" || got.GetBytes() < 100 {
		t.Errorf("got %v", got)
	}
	got.Id, got.Peer, got.UserAgent, got.Since, got.Bytes, got.Lag = "", "", "", nil, 0, nil
	want := &fanoutv1.WatcherStatus{
		Request: request, State: fanoutv1.WatcherStatus_STATE_LIVE, Position: m.GetPosition(),
		LagRevisions: new(int64(0)), LagEvents: new(int64(0)), Messages: 4,
	}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if m.GetPosition().GetRevision() != at {
		t.Errorf("got position %v, want revision %d", m.GetPosition(), at)
	}
}

// The status of a watch whose client does not read says that it is blocked and how many
// events wait.
func TestOperatorsSeeStuckWatches(t *testing.T) {
	in := start(t, settings{})
	ctx := within(t)
	in.awaitLoaded(ctx, t)
	large := strings.Repeat("x", 512<<10)
	s := openRaw(ctx, t, in.address, &fanoutv1.WatchRequest{Resource: config, Begin: fromNow()}, 4<<10)
	s.readFrames()
	for range 2 { // gRPC accepts one message, however large it is; the second one blocks
		in.put(ctx, t, config, "a", large)
	}
	first := in.awaitWatcher(ctx, t, (*fanoutv1.WatcherStatus).GetBlocked)
	if first.GetState() != fanoutv1.WatcherStatus_STATE_LIVE {
		t.Errorf("got state %v for a from_now watch, want LIVE", first.GetState())
	}
	const waiting = 5
	for range waiting {
		in.put(ctx, t, config, "a", large)
	}
	in.list(ctx, t, &fanoutv1.ListRequest{Resource: config}, nothing)
	got := in.awaitWatcher(ctx, t, func(w *fanoutv1.WatcherStatus) bool { return w.GetLagEvents() >= waiting })
	if !got.GetBlocked() || got.GetMessages() != first.GetMessages() || got.GetLagEvents() > waiting+1 {
		t.Errorf("got %v, and before that %v", got, first)
	}
	if got.GetLagRevisions() < waiting || got.GetLag().AsDuration() <= 0 {
		t.Errorf("got a lag of %d revisions and %v, want at least %d revisions", got.GetLagRevisions(), got.GetLag().AsDuration(), waiting)
	}

	in.watch(ctx, t, &fanoutv1.WatchRequest{Resource: config, Begin: fromNow()})
	byLag := in.watchers(ctx, t, &fanoutv1.ListWatchersRequest{Order: fanoutv1.ListWatchersRequest_ORDER_LAG})
	if all := byLag.GetWatchers(); len(all) != 2 || all[0].GetId() != got.GetId() || byLag.GetTotal() != 2 {
		t.Errorf("by lag: %v", byLag)
	}

	s.grant(t, wideOpen-4<<10)
	in.end(ctx, t, got.GetId())
	if _, err := s.await(ctx, t, "the stream ends", func(*rawStream) bool { return false }); err == nil {
		t.Error("got stream end OK, want a refusal")
	} else {
		wantRefusal(t, err, draining)
	}
}

// A watch that is stuck in a RESET sorts before all others by lag, although its lag is
// unknown: all of its events are still to come.
func TestAWatchStuckInAResetLagsMost(t *testing.T) {
	in := start(t, settings{})
	ctx := within(t)
	in.awaitLoaded(ctx, t)
	large := strings.Repeat("x", 512<<10)
	stuck := func(req *fanoutv1.WatchRequest, is func(*fanoutv1.WatcherStatus) bool) (id string) {
		openRaw(ctx, t, in.address, req, 4<<10).readFrames()
		for {
			for _, w := range in.watchers(ctx, t, &fanoutv1.ListWatchersRequest{}).GetWatchers() {
				if w.GetBlocked() && is(w) {
					return w.GetId()
				}
			}
			in.put(ctx, t, config, "a", large)
		}
	}
	behind := stuck(&fanoutv1.WatchRequest{Resource: config, Begin: fromNow()}, func(w *fanoutv1.WatcherStatus) bool { return w.GetLag().AsDuration() > 0 })
	for i := range 8 {
		in.put(ctx, t, config, fmt.Sprint("b", i), large)
	}
	reset := stuck(&fanoutv1.WatchRequest{Resource: config}, func(w *fanoutv1.WatcherStatus) bool {
		return w.GetState() == fanoutv1.WatcherStatus_STATE_CATCHING_UP && w.GetPosition().GetRevision() == 0
	})
	all := in.watchers(ctx, t, &fanoutv1.ListWatchersRequest{Order: fanoutv1.ListWatchersRequest_ORDER_LAG}).GetWatchers()
	if len(all) != 2 || all[0].GetId() != reset || all[1].GetId() != behind {
		t.Errorf("got %v by lag, want %s, which is stuck in a RESET, before %s", all, reset, behind)
	}
}

// The lag of a watch whose oldest event has left the window is a minimum, and says so.
func TestLagOlderThanTheWindowIsAMinimum(t *testing.T) {
	in := start(t, settings{window: cacher.WindowLimits{MinChanges: 4, MaxChanges: 4}, logBytes: 1 << 10})
	ctx := within(t)
	in.awaitLoaded(ctx, t)
	large := strings.Repeat("x", 512<<10)
	openRaw(ctx, t, in.address, &fanoutv1.WatchRequest{Resource: config, Begin: fromNow()}, 4<<10).readFrames()
	for range 2 { // gRPC accepts one message, however large it is; the second one blocks
		in.put(ctx, t, config, "a", large)
	}
	in.awaitWatcher(ctx, t, func(w *fanoutv1.WatcherStatus) bool { return w.GetBlocked() })
	in.put(ctx, t, config, "a", "1")
	first := in.awaitWatcher(ctx, t, func(w *fanoutv1.WatcherStatus) bool { return w.GetLagRevisions() > 0 })
	if first.GetLagIsMinimum() {
		t.Errorf("got %v, want an exact lag while the window has the event", first)
	}
	for range 8 {
		in.put(ctx, t, config, "a", "1")
	}
	in.awaitWatcher(ctx, t, func(w *fanoutv1.WatcherStatus) bool { return w.GetLagIsMinimum() && w.GetLag().AsDuration() > 0 })

	// More changes make the window younger, but not the lag.
	var before time.Duration
	for range 10 {
		in.put(ctx, t, config, "a", "1")
		in.list(ctx, t, &fanoutv1.ListRequest{Resource: config}, nothing)
		stats := in.server.WatchStats()[config]
		if stats.Behind != 1 || stats.BeyondWindow != 1 {
			t.Errorf("got %d watches behind and %d beyond the window, want 1 and 1", stats.Behind, stats.BeyondWindow)
		}
		if stats.Lag <= before {
			t.Errorf("got a lag of %v, and %v before that", stats.Lag, before)
		}
		before = in.watchers(ctx, t, &fanoutv1.ListWatchersRequest{}).GetWatchers()[0].GetLag().AsDuration()
		if before < stats.Lag {
			t.Errorf("got a lag of %v, and %v before that", before, stats.Lag)
		}
	}
}

// A blocked watch sorts before all others by lag, although the lag is unknown without a cache.
func TestBlockedWatchesComeFirst(t *testing.T) {
	in := start(t, settings{uncached: true})
	ctx := within(t)
	in.awaitLoaded(ctx, t)
	large := strings.Repeat("x", 512<<10)
	in.watch(ctx, t, &fanoutv1.WatchRequest{Resource: config, Begin: fromNow()})
	openRaw(ctx, t, in.address, &fanoutv1.WatchRequest{Resource: documents, Begin: fromNow()}, 4<<10).readFrames()
	for range 3 {
		in.put(ctx, t, documents, "a", `"`+large+`"`)
	}
	isBlocked := func(w *fanoutv1.WatcherStatus) bool { return w.GetBlocked() }
	poll.Until(t, "a watch is blocked", func() bool {
		return slices.ContainsFunc(in.watchers(ctx, t, &fanoutv1.ListWatchersRequest{}).GetWatchers(), isBlocked)
	})
	all := in.watchers(ctx, t, &fanoutv1.ListWatchersRequest{Order: fanoutv1.ListWatchersRequest_ORDER_LAG}).GetWatchers()
	if len(all) != 2 || !all[0].GetBlocked() || all[1].GetBlocked() {
		t.Errorf("got %v by lag, want the blocked watch first", all)
	}
}

// A resource that never changes is not behind, however often others are written.
func TestUnchangedResourceIsNotBehind(t *testing.T) {
	in := start(t, settings{})
	ctx := within(t)
	in.awaitLoaded(ctx, t)
	for range 20 {
		in.put(ctx, t, config, "a", "1")
	}
	if got := in.status(ctx, t, documents, true); got.LagRevisions == nil || got.GetLagRevisions() != 0 {
		t.Errorf("got %v, want no lag", got)
	}
}

// end ends a watch.
func (in *instance) end(ctx context.Context, t *testing.T, id string) {
	t.Helper()
	resp, err := in.admin().EndWatcher(ctx, &fanoutv1.EndWatcherRequest{Id: id})
	if err != nil {
		t.Fatal(err)
	}
	if !resp.GetEnded() {
		t.Errorf("the server knows no watch %q", id)
	}
}

func TestAnEndedWatchResumes(t *testing.T) {
	for name, with := range map[string]settings{"cached": {}, "uncached": {uncached: true}} {
		t.Run(name, func(t *testing.T) {
			in := start(t, with)
			ctx := within(t)
			in.put(ctx, t, config, "a", "1")
			w := in.watch(ctx, t, &fanoutv1.WatchRequest{Resource: config})
			_, synced := w.catchUp(fanoutv1.WatchResponse_CATCH_UP_RESET)
			other := in.watch(ctx, t, &fanoutv1.WatchRequest{Resource: config, Begin: after(synced.GetPosition())})
			other.catchUp(fanoutv1.WatchResponse_CATCH_UP_REPLAY)
			all := in.watchers(ctx, t, &fanoutv1.ListWatchersRequest{}).GetWatchers()
			in.end(ctx, t, all[0].GetId())
			w.wantDrained(synced.GetPosition())

			written := in.put(ctx, t, config, "a", "2")
			in.awaitLoaded(ctx, t) // the cache must have these writes: a watch that resumes does not wait for them
			resumed := in.watch(ctx, t, &fanoutv1.WatchRequest{Resource: config, Begin: after(synced.GetPosition())})
			if events, _ := resumed.catchUp(fanoutv1.WatchResponse_CATCH_UP_REPLAY); len(events) != 1 || events[0] != modified("a", "2", written) {
				t.Errorf("got events %v, want only the one of revision %d", events, written)
			}
			other.wantEvents(modified("a", "2", written)) // the other watch has not ended

			for in.watchers(ctx, t, &fanoutv1.ListWatchersRequest{}).GetTotal() != 2 {
			}
			for _, id := range []string{all[0].GetId(), "000000000000-1", "nobody"} {
				resp, err := in.admin().EndWatcher(ctx, &fanoutv1.EndWatcherRequest{Id: id})
				if err != nil || resp.GetEnded() {
					t.Errorf("%s: got %v, %v", id, resp, err)
				}
			}
		})
	}
}

// A user agent that is not UTF-8 does not break ListWatchers.
func TestAnyUserAgentCanBeListed(t *testing.T) {
	in := start(t, settings{})
	ctx := within(t)
	in.awaitLoaded(ctx, t)
	reads := fanoutv1.NewFanoutServiceClient(dial(t, in.address, grpc.WithUserAgent("shop\xff"+strings.Repeat("\xc3\xa4", 200))))
	end, err := opened(ctx, reads, &fanoutv1.WatchRequest{Resource: config, Begin: fromNow()})
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	resp, err := fanoutv1.NewAdminServiceClient(in.conn).ListWatchers(ctx, &fanoutv1.ListWatchersRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if got := resp.GetWatchers()[0].GetUserAgent(); !strings.HasPrefix(got, "shop\uFFFD\u00e4") {
		t.Errorf("got user agent %q, want invalid bytes replaced", got)
	}
}
