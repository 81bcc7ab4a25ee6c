package server_test

import (
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// Watches that do not report are listed, and count only if the request requires all.
func TestWatchesThatDoNotReportAreListedAndNotCounted(t *testing.T) {
	withAndWithoutCache(t, func(t *testing.T, with settings) {
		in := start(t, with)
		ctx := within(t)
		at := in.put(ctx, t, config, "a", "1")
		w, position := in.named(ctx, t, "reports", nil)
		in.report(ctx, t, w, position, nil)
		silent := in.watch(ctx, t, &fanoutv1.WatchRequest{Resource: config, Subscriber: &fanoutv1.Subscriber{Instance: "silent"}})
		_, synced := silent.catchUp(fanoutv1.WatchResponse_CATCH_UP_RESET)
		s := in.subscribe(ctx, t)
		s.start(1, &fanoutv1.WatchRequest{Resource: config}).catchUp(fanoutv1.WatchResponse_CATCH_UP_RESET)
		s.start(2, &fanoutv1.WatchRequest{Resource: config, Reports: true}).catchUp(fanoutv1.WatchResponse_CATCH_UP_RESET)

		l := in.watchApplied(ctx, t, nil, at)
		m := l.await(counts{Watches: 2, Applied: 1, Pending: []string{""}, NotReporting: 2})
		var names []string
		for _, w := range m.GetNotReportingWatchers() {
			names = append(names, w.GetSubscriber().GetInstance()+strconv.FormatBool(w.GetReports()))
		}
		if diff := cmp.Diff([]string{"silentfalse", "false"}, names); diff != "" || !m.GetPending()[0].GetReports() {
			t.Errorf("-want +got:\n%s", diff)
		}
		all := in.askApplied(ctx, t, &fanoutv1.WatchAppliedRequest{Resource: config, Revision: at, RequireAll: true})
		all.await(counts{Watches: 4, Applied: 1, Pending: []string{"silent", "", ""}})

		// From its first report on, a watch reports.
		in.report(ctx, t, silent, synced.GetPosition(), nil)
		l.await(counts{Watches: 3, Applied: 2, Pending: []string{""}, NotReporting: 1})
		s.report(1, synced.GetPosition(), nil)
		s.report(2, synced.GetPosition(), nil)
		l.await(counts{Watches: 4, Applied: 4})
		all.await(counts{Watches: 4, Applied: 4})
	})
}

// A request selects watches by the labels and the name of the subscriber, on both kinds of streams.
func TestWatchesAreSelectedByTheirSubscriber(t *testing.T) {
	in := start(t, settings{})
	ctx := within(t)
	at := in.put(ctx, t, config, "a", "1")
	for _, s := range []*fanoutv1.Subscriber{
		{Instance: "cart-1", Labels: map[string]string{"app": "cart", "zone": "eu"}},
		{Instance: "cart-2", Labels: map[string]string{"app": "cart", "zone": "us"}},
		{Instance: "shop-1", Labels: map[string]string{"app": "shop"}},
		nil,
	} {
		in.watch(ctx, t, &fanoutv1.WatchRequest{Resource: config, Reports: true, Subscriber: s}).catchUp(fanoutv1.WatchResponse_CATCH_UP_RESET)
	}
	stream := in.subscribe(ctx, t)
	stream.send(&fanoutv1.SubscribeRequest{Request: &fanoutv1.SubscribeRequest_Subscriber{
		Subscriber: &fanoutv1.Subscriber{Instance: "cart-3", Labels: map[string]string{"app": "cart"}},
	}})
	for id := range uint64(2) {
		stream.start(id, &fanoutv1.WatchRequest{Resource: config, Reports: id == 0}).catchUp(fanoutv1.WatchResponse_CATCH_UP_RESET)
	}
	for _, c := range []struct {
		subscribers, instance string
		want                  counts
	}{
		{"", "", counts{Watches: 5, Pending: []string{"cart-1", "cart-2", "shop-1", "", "cart-3"}, NotReporting: 1}},
		{"app=cart", "", counts{Watches: 3, Pending: []string{"cart-1", "cart-2", "cart-3"}, NotReporting: 1}},
		{"app=cart,zone!=us", "", counts{Watches: 2, Pending: []string{"cart-1", "cart-3"}, NotReporting: 1}},
		{"app in (shop, desk)", "", counts{Watches: 1, Pending: []string{"shop-1"}}},
		{"!app", "", counts{Watches: 1, Pending: []string{""}}},
		{"app=desk", "", counts{}},
		{"", "cart-2", counts{Watches: 1, Pending: []string{"cart-2"}}},
		{"app=shop", "cart-2", counts{}},
	} {
		req := &fanoutv1.WatchAppliedRequest{Resource: config, Revision: at, SubscriberSelector: c.subscribers, Instance: c.instance}
		if diff := cmp.Diff(c.want, in.askApplied(ctx, t, req).next()); diff != "" {
			t.Errorf("%q %q: -want +got:\n%s", c.subscribers, c.instance, diff)
		}
	}
}

// An answer has the position of the resource. When it reaches the revision, there is another answer.
func TestAnswersShowWhetherTheRevisionExists(t *testing.T) {
	in := start(t, settings{})
	ctx := within(t)
	at := in.put(ctx, t, config, "a", "1")
	in.named(ctx, t, "w", nil)
	l := in.watchApplied(ctx, t, nil, at+2)
	m := l.await(counts{Watches: 1, Pending: []string{"w"}})
	if got := m.GetPosition().GetRevision(); got != at {
		t.Errorf("got revision %d, want %d", got, at)
	}
	in.put(ctx, t, config, "a", "2") // nothing to tell
	in.put(ctx, t, config, "a", "3")
	m, err := l.stream.Recv()
	if err != nil || m.GetPosition().GetRevision() != at+2 {
		t.Errorf("got %v, %v, want revision %d", m, err, at+2)
	}
}
