package server_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/apierr"
)

func TestWatchRefusesInvalidOptions(t *testing.T) {
	in := start(t, settings{})
	ctx := within(t)
	here := &fanoutv1.Position{Epoch: in.epoch(ctx, t), Revision: in.put(ctx, t, config, "a", "1")}
	var requests []badRequest[fanoutv1.WatchRequest]
	add := func(name string, req *fanoutv1.WatchRequest, fields ...string) {
		req.Resource = config
		requests = append(requests, badRequest[fanoutv1.WatchRequest]{name: name, request: req, want: invalid(fields...)})
	}
	add("every_event and DELIVERY_LATEST", &fanoutv1.WatchRequest{EveryEvent: true, Delivery: fanoutv1.Delivery_DELIVERY_LATEST}, "every_event")
	add("unknown delivery", &fanoutv1.WatchRequest{Delivery: 3}, "delivery")
	add("exact_revision and from_now", &fanoutv1.WatchRequest{Begin: fromNow(), Consistency: exactRevision(1)}, "consistency.exact_revision")
	add("exact_revision and after", &fanoutv1.WatchRequest{Begin: after(here), Consistency: exactRevision(1)}, "consistency")
	add("exact_revision 0", &fanoutv1.WatchRequest{Consistency: exactRevision(0)}, "consistency.exact_revision")
	add("negative exact_revision", &fanoutv1.WatchRequest{Consistency: exactRevision(-1)}, "consistency.exact_revision")

	durations := map[string]struct {
		set         func(*fanoutv1.WatchRequest, *durationpb.Duration)
		least, most time.Duration
	}{
		"bookmark_interval": {func(r *fanoutv1.WatchRequest, d *durationpb.Duration) { r.BookmarkInterval = d }, 100 * time.Millisecond, time.Hour},
		"max_batch_delay":   {func(r *fanoutv1.WatchRequest, d *durationpb.Duration) { r.MaxBatchDelay = d }, time.Millisecond, time.Minute},
		"time_limit":        {func(r *fanoutv1.WatchRequest, d *durationpb.Duration) { r.TimeLimit = d }, time.Second, 0},
	}
	for field, c := range durations {
		bad := map[string]*durationpb.Duration{
			"zero":      {},
			"negative":  durationpb.New(-c.least),
			"too short": durationpb.New(c.least - 1),
			"not valid": {Seconds: 1, Nanos: -1},
			"overflow":  {Seconds: math.MaxInt64},
		}
		if c.most > 0 {
			bad["too long"] = durationpb.New(c.most + 1)
		}
		for name, d := range bad {
			req := &fanoutv1.WatchRequest{}
			c.set(req, d)
			add(fmt.Sprint(field, " ", name), req, field)
		}
	}
	worst := &fanoutv1.WatchRequest{
		EveryEvent: true, Delivery: fanoutv1.Delivery_DELIVERY_LATEST, Begin: fromNow(), Consistency: exactRevision(-1),
		BookmarkInterval: &durationpb.Duration{}, MaxBatchDelay: &durationpb.Duration{}, TimeLimit: &durationpb.Duration{},
	}
	add("all faults are reported together", worst,
		"consistency.exact_revision", "bookmark_interval", "max_batch_delay", "time_limit", "every_event")
	testBadRequests(t, in, func(ctx context.Context, req *fanoutv1.WatchRequest, opts ...grpc.CallOption) (*fanoutv1.WatchResponse, error) {
		stream, err := in.reads.Watch(ctx, req, opts...)
		if err != nil {
			return nil, err
		}
		return stream.Recv()
	}, requests)

	for field, c := range durations {
		for _, good := range []time.Duration{c.least, max(c.least, c.most)} {
			req := &fanoutv1.WatchRequest{Resource: config}
			c.set(req, durationpb.New(good))
			if events, _ := in.watch(ctx, t, req).catchUp(fanoutv1.WatchResponse_CATCH_UP_RESET); len(events) != 1 {
				t.Errorf("%s %v: got a snapshot of %d events, want 1", field, good, len(events))
			}
		}
	}
}

// projections are the combinations of previous_object and omit_values.
var projections = map[string]struct{ previous, omit bool }{
	"plain":                    {false, false},
	"previous":                 {true, false},
	"omit values":              {false, true},
	"previous and omit values": {true, true},
}

// projected returns the event as a watcher with these options receives it.
func projected(e *fanoutv1.Event, previous, omit bool) *fanoutv1.Event {
	e = proto.CloneOf(e)
	if !previous {
		e.Previous = nil
	}
	if omit {
		for _, o := range []*fanoutv1.Object{e.GetObject(), e.GetPrevious()} {
			if o != nil {
				o.Value = nil
			}
		}
	}
	return e
}

// wantEventsIn compares all events of the messages.
func wantEventsIn(t *testing.T, name string, all []*fanoutv1.WatchResponse, want []*fanoutv1.Event) {
	t.Helper()
	var got []*fanoutv1.Event
	for _, m := range all {
		got = append(got, m.GetEvents()...)
	}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("%s, -want +got:\n%s", name, diff)
	}
}

// The test sends every kind of event, live and replayed, with each projection. Only
// MODIFIED and DELETED events have a previous object. omit_values removes the values and
// nothing else.
func TestProjectionsOfEvents(t *testing.T) {
	in := start(t, settings{})
	ctx := within(t)
	first := in.putLabelled(t, "a", "1", "prod")
	epoch := in.epoch(ctx, t)
	inboxes := map[string]*inbox{}
	request := func(p struct{ previous, omit bool }) *fanoutv1.WatchRequest {
		return &fanoutv1.WatchRequest{Resource: config, LabelSelector: "env=prod", PreviousObject: p.previous, OmitValues: p.omit}
	}
	for name, projection := range projections {
		inboxes[name] = in.watch(ctx, t, request(projection)).collect()
		inboxes[name].await(ctx, t, synced)
	}

	second := in.putLabelled(t, "a", "2", "prod") // changes
	third := in.putLabelled(t, "a", "3", "test")  // leaves
	fourth := in.putLabelled(t, "a", "4", "prod") // comes back
	fifth := in.delete(ctx, t, config, "a")       // is deleted
	sixth := in.putLabelled(t, "a", "", "prod")   // is created again, empty

	text := func(text, env string, created, modified, version int64) *fanoutv1.Object {
		return &fanoutv1.Object{
			Key: "a", Value: &fanoutv1.Object_Text{Text: text}, ContentType: object.ContentText, Labels: map[string]string{"env": env},
			CreateRevision: created, ModRevision: modified, Version: version,
		}
	}
	one, two := text("1", "prod", first, first, 1), text("2", "prod", first, second, 2)
	four, six := text("4", "prod", first, fourth, 4), text("", "prod", sixth, sixth, 1)
	live := []*fanoutv1.Event{
		{Type: fanoutv1.Event_TYPE_MODIFIED, Revision: second, Object: two, Previous: one},
		{Type: fanoutv1.Event_TYPE_DELETED, Revision: third, Object: two, Previous: two},
		{Type: fanoutv1.Event_TYPE_ADDED, Revision: fourth, Object: four},
		{Type: fanoutv1.Event_TYPE_DELETED, Revision: fifth, Object: four, Previous: four},
		{Type: fanoutv1.Event_TYPE_ADDED, Revision: sixth, Object: six},
	}
	for name, projection := range projections {
		project := func(events ...*fanoutv1.Event) []*fanoutv1.Event {
			var want []*fanoutv1.Event
			for _, e := range events {
				want = append(want, projected(e, projection.previous, projection.omit))
			}
			return want
		}
		all := inboxes[name].await(ctx, t, reached(sixth))
		wantEventsIn(t, name+", live", all, project(append([]*fanoutv1.Event{{Type: fanoutv1.Event_TYPE_ADDED, Revision: first, Object: one}}, live...)...))

		req := request(projection)
		req.Begin = after(&fanoutv1.Position{Epoch: epoch, Revision: first})
		all = in.watch(ctx, t, req).collect().await(ctx, t, synced)
		wantEventsIn(t, name+", replayed", all, project(live...))

		req.Delivery = fanoutv1.Delivery_DELIVERY_LATEST
		all = in.watch(ctx, t, req).collect().await(ctx, t, synced)
		wantEventsIn(t, name+", merged", all, project(&fanoutv1.Event{Type: fanoutv1.Event_TYPE_MODIFIED, Revision: sixth, Object: six, Previous: one}))

		req.Begin, req.Consistency = nil, exactRevision(second)
		all = in.watch(ctx, t, req).collect().await(ctx, t, reached(sixth))
		past := slices.IndexFunc(all, isSynced) + 1
		wantEventsIn(t, name+", at an exact revision", all[:past], project(&fanoutv1.Event{Type: fanoutv1.Event_TYPE_ADDED, Revision: second, Object: two}))
		wantEventsIn(t, name+", after the exact revision", all[past:], project(&fanoutv1.Event{Type: fanoutv1.Event_TYPE_MODIFIED, Revision: sixth, Object: six, Previous: two}))
	}

	// The projections of watches do not affect lists.
	list, err := in.reads.List(ctx, &fanoutv1.ListRequest{Resource: config})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]*fanoutv1.Object{six}, list.GetObjects(), protocmp.Transform()); diff != "" {
		t.Errorf("list, -want +got:\n%s", diff)
	}
	old, err := in.reads.List(ctx, &fanoutv1.ListRequest{Resource: config, Consistency: exactRevision(fourth)})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]*fanoutv1.Object{four}, old.GetObjects(), protocmp.Transform()); diff != "" {
		t.Errorf("list of revision %d, -want +got:\n%s", fourth, diff)
	}
}

// Events of a DELTA have no previous objects, and its DELETED events have only the key.
func TestProjectionsOfDeltas(t *testing.T) {
	const window = 4
	in := start(t, settings{window: cacher.WindowLimits{MaxChanges: window}})
	ctx := within(t)
	created := map[string]int64{}
	for _, key := range []string{"changed", "deleted", "left", "untouched", "came back"} {
		created[key] = in.putLabelled(t, key, "1", "prod")
	}
	hidden := in.putLabelled(t, "hidden", "1", "test")
	here := &fanoutv1.Position{Epoch: in.epoch(ctx, t), Revision: hidden}

	in.putLabelled(t, "came and went", "1", "prod")
	went := in.delete(ctx, t, config, "came and went")
	in.delete(ctx, t, config, "came back")
	changed := in.putLabelled(t, "changed", "2", "prod")
	deleted := in.delete(ctx, t, config, "deleted")
	left := in.putLabelled(t, "left", "2", "test")
	showed := in.putLabelled(t, "hidden", "2", "prod")
	again := in.putLabelled(t, "came back", "2", "prod")
	var last int64
	for range window + 1 {
		last = in.putLabelled(t, "new", "1", "prod")
	}
	in.awaitLoaded(ctx, t) // the cache must have these writes: a watch that resumes does not wait for them
	prod := func(key, text string, created, modified, version int64) *fanoutv1.Object {
		return &fanoutv1.Object{
			Key: key, Value: &fanoutv1.Object_Text{Text: text}, ContentType: object.ContentText, Labels: map[string]string{"env": "prod"},
			CreateRevision: created, ModRevision: modified, Version: version,
		}
	}
	want := []*fanoutv1.Event{
		{Type: fanoutv1.Event_TYPE_DELETED, Revision: went, Object: &fanoutv1.Object{Key: "came and went"}},
		{Type: fanoutv1.Event_TYPE_MODIFIED, Revision: changed, Object: prod("changed", "2", created["changed"], changed, 2)},
		{Type: fanoutv1.Event_TYPE_DELETED, Revision: deleted, Object: &fanoutv1.Object{Key: "deleted"}},
		{Type: fanoutv1.Event_TYPE_DELETED, Revision: left, Object: &fanoutv1.Object{Key: "left"}},
		{Type: fanoutv1.Event_TYPE_MODIFIED, Revision: showed, Object: prod("hidden", "2", hidden, showed, 2)},
		{Type: fanoutv1.Event_TYPE_ADDED, Revision: again, Object: prod("came back", "2", again, again, 1)},
		{Type: fanoutv1.Event_TYPE_ADDED, Revision: last, Object: prod("new", "1", last-window, last, window+1)},
	}
	for name, projection := range projections {
		all := in.watch(ctx, t, &fanoutv1.WatchRequest{
			Resource: config, Begin: after(here), LabelSelector: "env=prod", PreviousObject: projection.previous, OmitValues: projection.omit,
		}).collect().await(ctx, t, synced)
		if kinds := kindsIn(all); len(kinds) != 1 || kinds[0] != fanoutv1.WatchResponse_CATCH_UP_DELTA {
			t.Fatalf("%s: got catch-ups %v, want a DELTA", name, kinds)
		}
		var wantProjected []*fanoutv1.Event
		for _, e := range want {
			wantProjected = append(wantProjected, projected(e, false, projection.omit))
		}
		wantEventsIn(t, name, all, wantProjected)
		for _, m := range all[:len(all)-1] {
			if m.GetPosition().GetRevision() != here.GetRevision() {
				t.Errorf("%s: got position %v within the DELTA, want revision %d until it ends", name, m.GetPosition(), here.GetRevision())
			}
		}
	}
}

// positionExpired is the refusal of an every_event watch that would miss events.
func positionExpired(asked, oldest, current int64) refusal {
	return refusal{Code: codes.OutOfRange, Reason: apierr.ReasonPositionExpired, Metadata: map[string]string{
		"asked_revision": decimal(asked), "oldest_revision": decimal(oldest), "current_revision": decimal(current),
	}}
}

// A watch with every_event is refused if events after its position are lost. The error
// names the oldest position that works.
func TestHonestEveryEventAtTheBeginning(t *testing.T) {
	const window = 3
	in := start(t, settings{window: cacher.WindowLimits{MaxChanges: window}})
	ctx := within(t)
	first := in.put(ctx, t, config, "a", "1")
	var at []int64
	for i := range window + 1 {
		at = append(at, in.put(ctx, t, config, "b", fmt.Sprint(i)))
	}
	oldest, now := at[0], at[window]
	in.awaitLoaded(ctx, t) // the cache must have these writes: a watch that resumes does not wait for them
	epoch := in.epoch(ctx, t)
	request := func(epoch string, revision int64) *fanoutv1.WatchRequest {
		return &fanoutv1.WatchRequest{
			Resource: config, Begin: after(&fanoutv1.Position{Epoch: epoch, Revision: revision}), EveryEvent: true,
		}
	}
	refused := func(req *fanoutv1.WatchRequest) error {
		t.Helper()
		stream, err := in.reads.Watch(ctx, req)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = stream.Recv(); err == nil {
			t.Fatalf("%v: got no error, want a refusal", req)
		}
		return err
	}
	// The scope makes no difference.
	for _, scope := range []*fanoutv1.Scope{nil, exactly("a"), prefix("nothing")} {
		req := request(epoch, first)
		req.Scope = scope
		wantRefusal(t, refused(req), positionExpired(first, oldest, now))
	}
	for _, revision := range []int64{1, first, now, now + 1000} {
		wantRefusal(t, refused(request("another", revision)), refusal{
			Code: codes.OutOfRange, Reason: apierr.ReasonEpochChanged,
			Metadata: map[string]string{"asked_epoch": "another", "current_epoch": epoch, "current_revision": decimal(now)},
		})
	}

	// The oldest_revision of the error works, and so does every newer one.
	for i, revision := range at {
		events, _ := in.watch(ctx, t, request(epoch, revision)).catchUp(fanoutv1.WatchResponse_CATCH_UP_REPLAY)
		if len(events) != len(at)-1-i {
			t.Errorf("after revision %d: got events %v, want %d", revision, events, len(at)-1-i)
		}
	}
	// A watch without a position begins with a snapshot, so it misses nothing.
	for _, req := range []*fanoutv1.WatchRequest{{Resource: config, EveryEvent: true}, request(epoch, 0), request("", 0), request("another", 0)} {
		if events, _ := in.watch(ctx, t, req).catchUp(fanoutv1.WatchResponse_CATCH_UP_RESET); len(events) != 2 {
			t.Errorf("%v: got snapshot %v, want 2 objects", req, events)
		}
	}
	// A watch without every_event catches up.
	for begin, want := range map[*fanoutv1.Position]fanoutv1.WatchResponse_CatchUp{
		{Epoch: epoch, Revision: first}:          fanoutv1.WatchResponse_CATCH_UP_DELTA,
		{Epoch: "another", Revision: first}:      fanoutv1.WatchResponse_CATCH_UP_RESET,
		{Epoch: "another", Revision: now + 1000}: fanoutv1.WatchResponse_CATCH_UP_RESET,
	} {
		in.watch(ctx, t, &fanoutv1.WatchRequest{Resource: config, Begin: after(begin)}).catchUp(want)
	}
}

// A watch of a stream that cannot begin is refused, for every reason that the server finds only when it
// makes the first message.
func TestStartsThatCannotBeginAreRefused(t *testing.T) {
	for name, with := range map[string]settings{"cached": {window: cacher.WindowLimits{MaxChanges: 3}}, "uncached": {uncached: true}} {
		t.Run(name, func(t *testing.T) {
			etcd, compact := openEtcdToCompact(t)
			in := startOver(t, etcd, with)
			ctx := within(t)
			first := in.put(ctx, t, config, "a", "1")
			var now int64
			for i := range 5 {
				now = in.put(ctx, t, config, "b", fmt.Sprint(i))
			}
			in.awaitLoaded(ctx, t)
			compact(ctx, now)
			epoch := in.epoch(ctx, t)
			s := in.subscribe(ctx, t)
			for id, req := range []*fanoutv1.WatchRequest{
				{EveryEvent: true, Begin: after(&fanoutv1.Position{Epoch: epoch, Revision: first})},
				{EveryEvent: true, Begin: after(&fanoutv1.Position{Epoch: "another", Revision: first})},
				{Consistency: exactRevision(first)},
			} {
				req.Resource = config
				end, err := opened(ctx, in.reads, req)
				if err == nil {
					end()
				}
				want := status.Convert(err).Proto()
				if want.GetCode() != int32(codes.OutOfRange) {
					t.Fatalf("start %d: Watch got %v, want OUT_OF_RANGE", id, want)
				}
				w := s.start(uint64(id), req)
				_, err = w.stream.Recv()
				if diff := cmp.Diff(want, status.Convert(err).Proto(), protocmp.Transform()); diff != "" {
					t.Errorf("start %d: -Watch +Subscribe:\n%s", id, diff)
				}
				if got := w.stream.(*subscribedWatch).entries; len(got) != 1 || got[0].GetRefused() == nil {
					t.Errorf("start %d: got %v, want only refused", id, got)
				}
			}
			in.wantNoUsage(ctx, t)
		})
	}
}

// relist makes the cacher of config lose its watch, calls meanwhile, and compacts etcd, so
// that the cacher must list again. It returns when the cacher has done so.
func (in *instance) relist(ctx context.Context, t *testing.T, compact func(context.Context, int64), meanwhile func()) {
	t.Helper()
	reached, cut := make(chan struct{}, 1), make(chan struct{})
	in.seams[config].on(func(ctx context.Context, method string) error {
		if method != "Next" {
			return nil
		}
		select {
		case reached <- struct{}{}:
		default:
		}
		select {
		case <-cut:
		case <-ctx.Done():
		}
		return object.ErrUnavailable
	})
	meanwhile()
	select {
	case <-reached:
	case <-ctx.Done():
		t.Fatal("the cacher received no update")
	}
	compact(ctx, in.revision(ctx, t))
	in.seams[config].on(nil)
	close(cut)
	in.lines.await(ctx, t, line{"msg": "listed again", "resource": config})
}

// History is lost during a watch. A watch with every_event ends with POSITION_EXPIRED;
// others continue with the difference.
func TestHonestEveryEventWhenHistoryIsLost(t *testing.T) {
	etcd, compact := openEtcdToCompact(t)
	in := startOver(t, etcd, settings{})
	ctx := within(t)
	first := in.put(ctx, t, config, "a", "1")
	here := &fanoutv1.Position{Epoch: in.epoch(ctx, t), Revision: first}
	strict := in.watch(ctx, t, &fanoutv1.WatchRequest{Resource: config, EveryEvent: true}).collect()
	quiet := in.watch(ctx, t, &fanoutv1.WatchRequest{Resource: config, Scope: prefix("quiet"), EveryEvent: true}).collect()
	plain := in.watch(ctx, t, &fanoutv1.WatchRequest{Resource: config}).collect()
	for _, w := range []*inbox{strict, quiet, plain} {
		w.await(ctx, t, synced)
	}
	var now int64
	in.relist(ctx, t, compact, func() {
		in.put(ctx, t, config, "a", "2")
		in.put(ctx, t, config, "a", "3")
		in.put(ctx, t, config, "b", "1")
		now = in.delete(ctx, t, config, "b")
	})

	all, err := strict.end(ctx, t)
	wantRefusal(t, err, positionExpired(first, now, now))
	if !reached(first)(all) || len(eventsOf(all)) != 1 {
		t.Errorf("got messages %v before the end, want one event", all)
	}
	// The server cannot know whether a lost event was in this scope.
	all, err = quiet.end(ctx, t)
	wantRefusal(t, err, positionExpired(first, now, now))
	if len(eventsOf(all)) != 0 {
		t.Errorf("got messages %v before the end, want no events", all)
	}
	all = plain.await(ctx, t, reached(now))
	// The last change of a was at the revision before the last two.
	if diff := cmp.Diff([]event{added("a", "1", first), modified("a", "3", now-2)}, eventsOf(all)); diff != "" {
		t.Errorf("watch without every_event, -want +got:\n%s", diff)
	}
	reset, delta := fanoutv1.WatchResponse_CATCH_UP_RESET, fanoutv1.WatchResponse_CATCH_UP_DELTA
	if kinds := kindsIn(all); !slices.Equal(kinds, []fanoutv1.WatchResponse_CatchUp{reset, delta}) {
		t.Errorf("watch without every_event: got catch-ups %v, want a RESET and a DELTA", kinds)
	}

	stream, err := in.reads.Watch(ctx, &fanoutv1.WatchRequest{Resource: config, Begin: after(here), EveryEvent: true})
	if err != nil {
		t.Fatal(err)
	}
	_, err = stream.Recv()
	wantRefusal(t, err, positionExpired(first, now, now))
	next := in.put(ctx, t, config, "a", "4")
	in.list(ctx, t, &fanoutv1.ListRequest{Resource: config}, nothing) // wait until the cache has the position of the next watch
	events, _ := in.watch(ctx, t, &fanoutv1.WatchRequest{
		Resource: config, Begin: after(&fanoutv1.Position{Epoch: here.GetEpoch(), Revision: now}), EveryEvent: true,
	}).catchUp(fanoutv1.WatchResponse_CATCH_UP_REPLAY)
	if diff := cmp.Diff([]event{modified("a", "4", next)}, events); diff != "" {
		t.Errorf("watch that begins after the loss, -want +got:\n%s", diff)
	}
}

// A watch with every_event also ends with POSITION_EXPIRED when its client reads so slowly
// that the window moves past its position.
func TestHonestEveryEventOfAReaderThatStalls(t *testing.T) {
	in := start(t, settings{window: cacher.WindowLimits{MaxChanges: 10}, logBytes: 1 << 10})
	ctx := within(t)
	here := in.list(ctx, t, &fanoutv1.ListRequest{Resource: config}, nothing).at
	const window = 1 << 10
	s := openRaw(ctx, t, in.address, &fanoutv1.WatchRequest{Resource: config, Begin: after(here), EveryEvent: true}, window)
	s.readFrames()
	var want []event
	write := func(key, text string) {
		want = append(want, added(key, text, in.put(ctx, t, config, key, text)))
	}
	// The first message fills all buffers of the stream, so the watch blocks at the second
	// one. Without it, the watch could end at any of the following writes.
	write("large", strings.Repeat("x", 256<<10))
	large := want[0].At
	s.await(ctx, t, "the window is used up", func(s *rawStream) bool { return s.received == window })
	in.awaitWatcher(ctx, t, func(w *fanoutv1.WatcherStatus) bool { return w.GetPosition().GetRevision() >= large })
	write("second", "")
	in.awaitWatcher(ctx, t, (*fanoutv1.WatcherStatus).GetBlocked)
	for i := range 100 {
		write(fmt.Sprint(i), "")
	}
	now := in.list(ctx, t, &fanoutv1.ListRequest{Resource: config}, nothing).at.GetRevision()
	s.grant(t, 1<<30)
	all, err := s.await(ctx, t, "the stream ends", func(*rawStream) bool { return false })
	events := eventsOf(all)
	if diff := cmp.Diff(want[:min(len(events), len(want))], events); diff != "" {
		t.Errorf("events before the end, -want +got:\n%s", diff)
	}
	wantRefusal(t, err, positionExpired(all[len(all)-1].GetPosition().GetRevision(), now-10, now))
}
