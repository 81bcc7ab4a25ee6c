package server_test

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/check"
)

// Every page has the number of objects that follow it. Writes between the pages do not change the
// counts, because all pages are of the revision of the first one.
func TestEveryPageSaysHowManyObjectsRemain(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	for name, uncached := range map[string]bool{"cached": false, "uncached": true} {
		t.Run(name, func(t *testing.T) { testRemainingCount(t, start(t, settings{uncached: uncached})) })
	}
}

func testRemainingCount(t *testing.T, in *instance) {
	ctx := within(t)
	l := in.ledger(config)
	for _, folder := range []string{"a", "b", "b/c", "bc", "d"} {
		texts := map[string]*string{}
		for i := range 7 {
			texts[fmt.Sprintf("%s/%d", folder, i)] = new("x")
		}
		l.write(ctx, t, texts)
	}
	for _, c := range []struct {
		name  string
		req   *fanoutv1.ListRequest
		count int
	}{
		{"all at once", &fanoutv1.ListRequest{}, 35},
		{"last page is smaller", &fanoutv1.ListRequest{PageSize: 4}, 35},
		{"all pages are full", &fanoutv1.ListRequest{PageSize: 7}, 35},
		{"one page exactly", &fanoutv1.ListRequest{PageSize: 35}, 35},
		{"one by one", &fanoutv1.ListRequest{Scope: prefix("bc"), PageSize: 1}, 7},
		{"prefix", &fanoutv1.ListRequest{Scope: prefix("b"), PageSize: 4}, 14},
		{"start key", &fanoutv1.ListRequest{StartKey: "b/3", PageSize: 4}, 25},
		{"start key that does not exist", &fanoutv1.ListRequest{StartKey: "b/33", PageSize: 4}, 24},
		{"prefix and start key", &fanoutv1.ListRequest{Scope: prefix("b"), StartKey: "b/3", PageSize: 4}, 11},
		{"start key before the prefix", &fanoutv1.ListRequest{Scope: prefix("b"), StartKey: "a/3", PageSize: 4}, 14},
		{"start key after the prefix", &fanoutv1.ListRequest{Scope: prefix("b"), StartKey: "c", PageSize: 4}, 0},
		{"key", &fanoutv1.ListRequest{Scope: exactly("d/6"), PageSize: 4}, 1},
		{"absent key", &fanoutv1.ListRequest{Scope: exactly("d"), PageSize: 4}, 0},
		{"any", &fanoutv1.ListRequest{PageSize: 10, Consistency: anyRevision()}, 35},
		{"the past", &fanoutv1.ListRequest{PageSize: 10, Consistency: exactRevision(l.at)}, 35},
	} {
		t.Run(c.name, func(t *testing.T) {
			req := proto.CloneOf(c.req)
			req.Resource = config
			counting := proto.CloneOf(req)
			counting.PageSize, counting.CountOnly = 0, true
			count, err := in.reads.List(ctx, counting)
			if err != nil || count.RemainingCount == nil || count.GetRemainingCount() != int64(c.count) || len(count.GetObjects()) != 0 || count.GetPosition() == nil {
				t.Errorf("count_only: got %v, %v; want %d", count, err, c.count)
			}
			seen := 0
			var position *fanoutv1.Position
			for round := 0; ; round++ {
				page, err := in.reads.List(ctx, req)
				if err != nil {
					t.Fatal(err)
				}
				seen += len(page.GetObjects())
				if page.RemainingCount == nil || page.GetRemainingCount() != int64(c.count-seen) {
					t.Errorf("got remaining count %v after %d objects, want %d", page.RemainingCount, seen, c.count-seen)
				}
				if position == nil {
					position = page.GetPosition()
				}
				if !proto.Equal(position, page.GetPosition()) {
					t.Errorf("got a page of position %v, want %v as for the first page", page.GetPosition(), position)
				}
				if req.PageToken = page.GetNextPageToken(); req.GetPageToken() == "" {
					break
				}
				req.Consistency = nil
				// The next page need not be as large as this one.
				if req.GetPageSize() > 1 && round%2 == 1 {
					req.PageSize--
				}
				// Write before, near and after the key that the list has reached.
				in.put(ctx, t, config, fmt.Sprint("a/new ", c.name, round), "")
				in.put(ctx, t, config, fmt.Sprint("b/9 new ", c.name, round), "")
				in.put(ctx, t, config, fmt.Sprint("z", c.name, round), "")
			}
			if seen != c.count {
				t.Errorf("got %d objects, want %d", seen, c.count)
			}
			// Remove the new objects.
			written, err := in.reads.List(ctx, &fanoutv1.ListRequest{Resource: config})
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range written.GetObjects() {
				if o.GetText() == "" {
					in.delete(ctx, t, config, o.GetKey())
				}
			}
		})
	}
}

// Pages that end because of the message size also have the number of remaining objects.
func TestPagesLimitedByBytesSayHowManyObjectsRemain(t *testing.T) {
	in := start(t, settings{})
	ctx := within(t)
	l := in.ledger(config)
	for i := range 5 {
		l.write(ctx, t, map[string]*string{fmt.Sprint(i): new(strings.Repeat("x", maxValueBytes-1<<10))})
	}
	read := l.read(ctx, t, &fanoutv1.ListRequest{})
	if len(read.Pages) < 2 {
		t.Fatalf("got 5 MiB in %d pages, want at least 2", len(read.Pages))
	}
	for i, p := range read.Pages {
		if p.Remaining == nil {
			t.Errorf("got no remaining count on page %d, want one", i)
		}
	}
	if err := check.Consistent(read, l.truth(ctx, t, check.Conditions{})); err != nil {
		t.Error(err)
	}
}

// A page has no remaining count if the server would have to match selectors or fetch
// history to know it.
func TestRemainingCountIsOmittedWhereItIsCostly(t *testing.T) {
	in := start(t, settings{window: cacher.WindowLimits{MaxChanges: 3}})
	ctx := within(t)
	l := in.ledger(config)
	l.labels = oddOrEven
	for i := range 9 {
		l.write(ctx, t, map[string]*string{fmt.Sprint(i): new(fmt.Sprint(i))})
	}
	truth := l.truth(ctx, t, check.Conditions{})
	odd := func(o *object.Decoded) bool { return o.Labels["number"] == "odd" }
	// This read waits until the cache has all writes: before, older revisions may be in the window.
	if _, err := in.reads.List(ctx, &fanoutv1.ListRequest{Resource: config, CountOnly: true}); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		req   *fanoutv1.ListRequest
		picks func(*object.Decoded) bool
	}{
		"label selector":           {&fanoutv1.ListRequest{LabelSelector: "number=odd"}, odd},
		"field selector":           {&fanoutv1.ListRequest{FieldSelector: "name!=3"}, func(o *object.Decoded) bool { return o.Key != "3" }},
		"history":                  {&fanoutv1.ListRequest{Consistency: exactRevision(l.at - 5)}, nil},
		"history, label selector":  {&fanoutv1.ListRequest{Consistency: exactRevision(l.at - 5), LabelSelector: "number=odd"}, odd},
		"selector without a match": {&fanoutv1.ListRequest{LabelSelector: "number=neither"}, func(*object.Decoded) bool { return false }},
	} {
		// If only the number is asked for, the objects are examined.
		counting := proto.CloneOf(c.req)
		counting.Resource, counting.CountOnly = config, true
		list := proto.CloneOf(c.req)
		list.Resource = config
		all, err := in.reads.List(ctx, list)
		if err != nil {
			t.Fatal(err)
		}
		if count, err := in.reads.List(ctx, counting); err != nil || count.RemainingCount == nil || count.GetRemainingCount() != int64(len(all.GetObjects())) {
			t.Errorf("%s: count_only: got %v, %v; want %d", name, count, err, len(all.GetObjects()))
		}
		for _, size := range []int32{0, 1, 2, 100} {
			req := proto.CloneOf(c.req)
			req.PageSize = size
			read := l.read(ctx, t, req)
			read.Picks = c.picks
			if err := check.Consistent(read, truth); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			for i, p := range read.Pages {
				if p.Remaining != nil {
					t.Errorf("%s: got remaining count %d on page %d of %d, want none", name, *p.Remaining, i, len(read.Pages))
				}
			}
		}
	}

	// A list that began in memory continues from etcd's history after its revision has left
	// the window.
	req := &fanoutv1.ListRequest{Resource: config, PageSize: 2}
	first, err := in.reads.List(ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	if first.RemainingCount == nil || first.GetRemainingCount() != 7 {
		t.Errorf("got remaining count %v after 2 of 9 objects, want 7", first.RemainingCount)
	}
	for i := range 5 {
		in.put(ctx, t, config, "later", fmt.Sprint(i))
	}
	in.list(ctx, t, &fanoutv1.ListRequest{Resource: config}, nothing)
	req.PageToken = first.GetNextPageToken()
	second, err := in.reads.List(ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	if got := keysOf(second.GetObjects()); got != "2 3" || !proto.Equal(first.GetPosition(), second.GetPosition()) {
		t.Errorf("got second page %s of %v, want 2 3 of %v", got, second.GetPosition(), first.GetPosition())
	}
	if second.RemainingCount != nil {
		t.Errorf("got remaining count %d on a page of history, want none", second.GetRemainingCount())
	}
}
