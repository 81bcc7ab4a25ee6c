package server_test

import (
	"fmt"
	"strings"
	"testing"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// putLabelled stores a text with a label "env" and returns the revision.
func (in *instance) putLabelled(t *testing.T, key, text, env string) int64 {
	t.Helper()
	op := putText(key, text)
	op.Labels = map[string]string{"env": env}
	resp, err := in.writes.Put(within(t), &fanoutv1.PutRequest{Resource: config, Put: op})
	if err != nil {
		t.Fatal(err)
	}
	return resp.GetRevision()
}

func TestBadSelectorsAreRefused(t *testing.T) {
	in := start(t, settings{})
	var lists []badRequest[fanoutv1.ListRequest]
	for name, bad := range map[string]struct{ labels, fields, field string }{
		"label syntax":     {"env in prod", "", "label_selector"},
		"label too long":   {strings.Repeat("a,", 3000), "", "label_selector"},
		"field syntax":     {"", "key>1", "field_selector"},
		"field undeclared": {"", "region=eu", "field_selector"},
	} {
		lists = append(lists, badRequest[fanoutv1.ListRequest]{
			name:    name,
			request: &fanoutv1.ListRequest{Resource: config, LabelSelector: bad.labels, FieldSelector: bad.fields},
			want:    invalid(bad.field),
		})
		t.Run("watch/"+name, func(t *testing.T) {
			stream, err := in.reads.Watch(within(t), &fanoutv1.WatchRequest{Resource: config, LabelSelector: bad.labels, FieldSelector: bad.fields})
			if err != nil {
				t.Fatal(err)
			}
			_, err = stream.Recv()
			wantRefusal(t, err, invalid(bad.field))
		})
	}
	testBadRequests(t, in, in.reads.List, lists)
}

// The page size counts only objects that the selector matches. A page token is valid for
// every spelling of its selector, and for no other selector.
func TestListFiltered(t *testing.T) {
	in := start(t, settings{})
	ctx := within(t)
	for i := range 10 {
		in.putLabelled(t, fmt.Sprintf("k%d", i), "v", []string{"prod", "test"}[i%2])
	}
	req := &fanoutv1.ListRequest{Resource: config, LabelSelector: "env==prod", FieldSelector: "name!=k4", PageSize: 3}
	first, err := in.reads.List(ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	if got := keysOf(first.GetObjects()); got != "k0 k2 k6" {
		t.Errorf("got first page %q, want k0 k2 k6", got)
	}
	req.PageToken, req.LabelSelector = first.GetNextPageToken(), "env in (prod)"
	second, err := in.reads.List(ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	if got := keysOf(second.GetObjects()); got != "k8" || second.GetNextPageToken() != "" {
		t.Errorf("got second page %q and token %q, want k8 and no token", got, second.GetNextPageToken())
	}
	req.LabelSelector = "env=test"
	_, err = in.reads.List(ctx, req)
	wantRefusal(t, err, invalid("page_token"))
}

func keysOf(objects []*fanoutv1.Object) string {
	keys := make([]string, len(objects))
	for i, o := range objects {
		keys[i] = o.GetKey()
	}
	return strings.Join(keys, " ")
}

func TestWatchFiltered(t *testing.T) {
	in := start(t, settings{})
	ctx := within(t)
	first := in.putLabelled(t, "a", "1", "prod")
	in.putLabelled(t, "b", "1", "test")
	w := in.watch(ctx, t, &fanoutv1.WatchRequest{Resource: config, LabelSelector: "env=prod"})
	events, _ := w.catchUp(fanoutv1.WatchResponse_CATCH_UP_RESET)
	if len(events) != 1 || events[0] != added("a", "1", first) {
		t.Errorf("got snapshot %v, want only a", events)
	}
	in.putLabelled(t, "b", "2", "test")
	w.wantEvents(added("b", "3", in.putLabelled(t, "b", "3", "prod")))
	left := in.putLabelled(t, "a", "2", "test")
	w.wantEvents(deleted("a", "1", left))
}
