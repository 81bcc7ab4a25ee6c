package store_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fanoutd/fanoutd/internal/history"
	"github.com/fanoutd/fanoutd/internal/object"
)

// A server that has not noticed yet that etcd was restored makes orders from a revision that is far too high. The
// others continue them, and readers find all writes.
func TestHistoryAfterARestore(t *testing.T) {
	_, all, stores := servers(t, 2)
	restored, other := all[0], all[1]
	now := time.Now()
	var want []string
	write := func(r *recording, key string) {
		want = append(want, fmt.Sprint(key, " ", r.mustWrite(t, now, put(key, "x"))))
	}
	write(other, "a")
	stores[0].Saw(1_000_000)
	write(restored, "b")
	for range 3 {
		write(other, "c")
		write(other, "a")
	}
	slices.Reverse(want)
	reader := history.NewReader(other.records, false)
	for _, key := range []object.Key{"", "a"} {
		scope, want := object.Scope{}, want
		if key != "" {
			scope = object.ExactKey(key)
			want = slices.DeleteFunc(slices.Clone(want), func(s string) bool { return !strings.HasPrefix(s, "a ") })
		}
		for limit := range 4 {
			var got []string
			q := history.Query{Scope: scope, Limit: 1 + limit}
			for more := true; more; {
				page, err := reader.Page(contextFor(t), q)
				if err != nil {
					t.Fatal(err)
				}
				for _, e := range page.Entries {
					got = append(got, fmt.Sprint(e.Key, " ", e.Revision))
				}
				q.From, more = page.Next, page.More
			}
			if !slices.Equal(got, want) {
				t.Errorf("pages of %d records of %q have %v, want %v", q.Limit, key, got, want)
			}
		}
	}
	last := other.revision["a"]
	if got, err := reader.At(contextFor(t), now.Add(time.Hour)); err != nil || got != last {
		t.Errorf("an hour later means revision %d, %v, want %d", got, err, last)
	}
	if got, err := reader.Last(contextFor(t), "a", last); err != nil || got == nil || got.Revision != last {
		t.Errorf("got last change %v, %v", got, err)
	}
}

// Objects of a restored etcd are encrypted again, too.
func TestRewriteAfterARestore(t *testing.T) {
	_, all, stores := servers(t, 2)
	stores[0].Saw(1_000_000)
	first := all[0].mustWrite(t, time.Now(), put("a", "x"))
	c := stores[1].Outdated("config", "/test/config/")
	records := c.KeepHistory()
	if done, err := c.Rewrite(contextFor(t), "", 100, 16); err != nil || done.Rewritten != 1 {
		t.Fatalf("got %+v, %v", done, err)
	}
	page, err := history.NewReader(records, false).Page(contextFor(t), history.Query{Limit: 10})
	if err != nil || len(page.Entries) != 1 || page.Entries[0].Revision != first {
		t.Errorf("got %v, %v, want one write without a gap", page.Entries, err)
	}
}
