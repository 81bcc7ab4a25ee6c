package server_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

func prefix(path string) *fanoutv1.Scope {
	return &fanoutv1.Scope{Scope: &fanoutv1.Scope_Prefix{Prefix: path}}
}

func exactly(key string) *fanoutv1.Scope {
	return &fanoutv1.Scope{Scope: &fanoutv1.Scope_Key{Key: key}}
}

func TestListRefusesBadRequests(t *testing.T) {
	in := start(t, settings{})
	now := in.put(within(t), t, config, "a", "1")
	requests := []badRequest[fanoutv1.ListRequest]{
		{name: "nothing", request: &fanoutv1.ListRequest{}, want: invalid("resource")},
		{name: "missing resource", request: &fanoutv1.ListRequest{Scope: prefix("a")}, want: invalid("resource")},
		{name: "unknown resource", request: &fanoutv1.ListRequest{Resource: "x"}, want: unknownResource("x")},
		{name: "empty prefix", request: &fanoutv1.ListRequest{Resource: config, Scope: prefix("")}, want: invalid("scope.prefix")},
		{name: "empty key", request: &fanoutv1.ListRequest{Resource: config, Scope: exactly("")}, want: invalid("scope.key")},
		{name: "count of a page", request: &fanoutv1.ListRequest{Resource: config, PageSize: 1, CountOnly: true}, want: invalid("count_only")},
		{name: "negative page size", request: &fanoutv1.ListRequest{Resource: config, PageSize: -1}, want: invalid("page_size")},
		{
			name:    "revision 0",
			request: &fanoutv1.ListRequest{Resource: config, Consistency: minRevision(0)},
			want:    invalid("consistency.min_revision"),
		},
		{
			name:    "negative revision",
			request: &fanoutv1.ListRequest{Resource: config, Consistency: minRevision(-1)},
			want:    invalid("consistency.min_revision"),
		},
		{
			name:    "future revision",
			request: &fanoutv1.ListRequest{Resource: config, Consistency: minRevision(now + 1)},
			want:    inFuture(now+1, now), asks: true,
		},
		{
			name: "all faults are reported together",
			request: &fanoutv1.ListRequest{
				Resource: config, Scope: prefix("//"), Consistency: minRevision(-1), PageSize: -1, PageToken: "?",
			},
			want: invalid("scope.prefix", "consistency.min_revision", "page_size", "page_token", "consistency"),
		},
	}
	for name, path := range badPaths {
		requests = append(requests, badRequest[fanoutv1.ListRequest]{
			name: "prefix/" + name, request: &fanoutv1.ListRequest{Resource: config, Scope: prefix(path)}, want: invalid("scope.prefix"),
		})
	}
	testBadRequests(t, in, in.reads.List, requests)
}

// listed is a complete list.
type listed struct {
	objects []*fanoutv1.Object
	pages   []int // number of objects on each page
	at      *fanoutv1.Position
}

// list reads all pages of a list. It calls between before each further page.
func (in *instance) list(ctx context.Context, t *testing.T, req *fanoutv1.ListRequest, between func()) listed {
	t.Helper()
	const maxPages = 100
	var all listed
	for range maxPages {
		page, err := in.reads.List(ctx, req)
		if err != nil {
			t.Fatal(err)
		}
		if all.at == nil {
			all.at = page.GetPosition()
		}
		if diff := cmp.Diff(all.at, page.GetPosition(), protocmp.Transform()); diff != "" {
			t.Fatalf("position of page %d, -first page +got:\n%s", len(all.pages)+1, diff)
		}
		all.objects = append(all.objects, page.GetObjects()...)
		all.pages = append(all.pages, len(page.GetObjects()))
		if page.GetNextPageToken() == "" {
			return all
		}
		req = &fanoutv1.ListRequest{
			Resource: req.GetResource(), Scope: req.GetScope(), StartKey: req.GetStartKey(), PageSize: req.GetPageSize(),
			PageToken: page.GetNextPageToken(),
		}
		between()
	}
	t.Fatalf("got more than %d pages", maxPages)
	return all
}

func (l listed) keys() []string {
	var keys []string
	for _, o := range l.objects {
		keys = append(keys, o.GetKey())
	}
	return keys
}

func nothing() {}

func TestPagesTogetherAreTheListAtOneRevision(t *testing.T) {
	in := start(t, settings{})
	ctx := within(t)
	var last int64
	for i := range 25 {
		last = in.put(ctx, t, config, fmt.Sprintf("k%02d", i), "before")
	}
	whole := in.list(ctx, t, &fanoutv1.ListRequest{Resource: config}, nothing)
	if len(whole.pages) != 1 || len(whole.objects) != 25 {
		t.Fatalf("got pages of %v objects, want one page of 25", whole.pages)
	}
	if got := whole.at.GetRevision(); got != last {
		t.Errorf("got a list of revision %d, want %d", got, last)
	}

	// Between the pages there is every kind of write, before and after the key that the list
	// has reached.
	round := 0
	paged := in.list(ctx, t, &fanoutv1.ListRequest{Resource: config, PageSize: 7}, func() {
		for _, key := range []string{"a", "k00+", "k24+", "z"} {
			in.put(ctx, t, config, fmt.Sprintf("%s%d", key, round), "new")
		}
		in.put(ctx, t, config, fmt.Sprintf("k%02d", round), "after")
		in.put(ctx, t, config, fmt.Sprintf("k%02d", 20+round), "after")
		in.delete(ctx, t, config, fmt.Sprintf("k%02d", 23-round))
		round++
	})
	if diff := cmp.Diff([]int{7, 7, 7, 4}, paged.pages); diff != "" {
		t.Errorf("sizes of the pages, -want +got:\n%s", diff)
	}
	if diff := cmp.Diff(whole.at, paged.at, protocmp.Transform()); diff != "" {
		t.Errorf("position, -want +got:\n%s", diff)
	}
	if diff := cmp.Diff(whole.objects, paged.objects, protocmp.Transform()); diff != "" {
		t.Errorf("all pages together, -want +got:\n%s", diff)
	}
}

func TestAPageEndsBeforeTheResponseIsTooLarge(t *testing.T) {
	in := start(t, settings{})
	ctx := within(t)
	for i := range 4 {
		in.put(ctx, t, config, fmt.Sprint(i), strings.Repeat("x", maxValueBytes))
	}
	all := in.list(ctx, t, &fanoutv1.ListRequest{Resource: config}, nothing)
	if diff := cmp.Diff([]int{2, 2}, all.pages); diff != "" {
		t.Errorf("sizes of the pages, -want +got:\n%s", diff)
	}
	if diff := cmp.Diff([]string{"0", "1", "2", "3"}, all.keys()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	// Without the values, the objects fit into one page.
	keys, err := in.reads.List(ctx, &fanoutv1.ListRequest{Resource: config, OmitValues: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range all.objects {
		o.Value = nil
	}
	if diff := cmp.Diff(all.objects, keys.GetObjects(), protocmp.Transform()); diff != "" {
		t.Errorf("without values, -want +got:\n%s", diff)
	}
}

func TestListReturnsItsScopeFromTheStartKey(t *testing.T) {
	in := start(t, settings{})
	ctx := within(t)
	for _, key := range []string{"team-a", "team-a/x", "team-a/x/y", "team-a/z", "team-ab", "team-b/x", "other"} {
		in.put(ctx, t, config, key, "")
	}
	for _, c := range []struct {
		name  string
		scope *fanoutv1.Scope
		from  string
		want  []string
	}{
		{"everything", nil, "", []string{"other", "team-a", "team-a/x", "team-a/x/y", "team-a/z", "team-ab", "team-b/x"}},
		{"empty scope", &fanoutv1.Scope{}, "team-ab", []string{"team-ab", "team-b/x"}},
		{"prefix", prefix("team-a"), "", []string{"team-a/x", "team-a/x/y", "team-a/z"}},
		{"prefix with a slash", prefix("team-a/"), "", []string{"team-a/x", "team-a/x/y", "team-a/z"}},
		{"prefix of two segments", prefix("team-a/x"), "", []string{"team-a/x/y"}},
		{"part of a segment is no prefix", prefix("team"), "", nil},
		{"start key that exists", prefix("team-a"), "team-a/x/y", []string{"team-a/x/y", "team-a/z"}},
		{"start key that does not exist", prefix("team-a"), "team-a/y", []string{"team-a/z"}},
		{"start key before the scope", prefix("team-b"), "a", []string{"team-b/x"}},
		{"start key after the scope", prefix("team-a"), "team-b", nil},
		{"key", exactly("team-a"), "", []string{"team-a"}},
		{"absent key", exactly("team"), "", nil},
		{"key before the start key", exactly("team-a"), "team-b", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			req := &fanoutv1.ListRequest{Resource: config, Scope: c.scope, StartKey: c.from}
			if diff := cmp.Diff(c.want, in.list(ctx, t, req, nothing).keys()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			req.PageSize = 1
			if diff := cmp.Diff(c.want, in.list(ctx, t, req, nothing).keys()); diff != "" {
				t.Errorf("in pages of one, -want +got:\n%s", diff)
			}
		})
	}
}

func TestAnEmptyListHasAPosition(t *testing.T) {
	in := start(t, settings{})
	ctx := within(t)
	all := in.list(ctx, t, &fanoutv1.ListRequest{Resource: config}, nothing)
	want := listed{pages: []int{0}, at: &fanoutv1.Position{Epoch: in.epoch(ctx, t), Revision: in.revision(ctx, t)}}
	if diff := cmp.Diff(want, all, cmp.AllowUnexported(listed{}), protocmp.Transform()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
