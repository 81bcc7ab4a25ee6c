package store_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fanoutd/fanoutd/internal/history"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/etcdproc"
	"github.com/fanoutd/fanoutd/test/poll"
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

// When the revisions of a restored etcd reach those that a server made orders from before it noticed the restore,
// pages and states of the time before still have all writes.
func TestHistoryWhenRevisionsCatchUpAfterARestore(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	e, all, stores := servers(t, 2)
	restored, other := all[0], all[1]
	now := time.Now()
	type write struct {
		key object.Key
		at  object.Revision
	}
	var writes []write
	note := func(r *recording, key string) {
		writes = append(writes, write{object.Key(key), r.mustWrite(t, now, put(key, "x"))})
	}
	note(other, "a")
	const before = 3 * history.Slack
	stores[0].Saw(before)
	note(restored, "b")
	for range 3 {
		note(other, "c")
		note(other, "a")
		note(restored, "b")
	}
	for revision := object.Revision(0); revision < before+history.Slack; {
		resp, err := e.client.Put(contextFor(t), "/elsewhere", "x")
		if err != nil {
			t.Fatal(err)
		}
		revision = object.Revision(resp.Header.GetRevision())
		stores[1].Saw(revision)
		if revision%100 == 0 {
			note(other, "a")
		}
	}
	last := writes[len(writes)-1].at
	reader := history.NewReader(other.records, false)
	for _, key := range []object.Key{"", "a", "b"} {
		scope := object.Scope{}
		if key != "" {
			scope = object.ExactKey(key)
		}
		for upto := object.Revision(0); upto < last+2; upto += 1 + upto/20 {
			var want, got []string
			for _, w := range slices.Backward(writes) {
				if (key == "" || w.key == key) && (upto == 0 || w.at <= upto) {
					want = append(want, fmt.Sprint(w.key, " ", w.at))
				}
			}
			q := history.Query{Scope: scope, Limit: 5, From: history.Place{Upto: upto}}
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
				t.Fatalf("pages of %q from revision %d have %v, want %v", key, upto, got, want)
			}
		}
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

// Objects that are encrypted again after a restore hide no writes, and a time means the same revision as before.
func TestPagesAfterARestoreAndARewrite(t *testing.T) {
	_, all, stores := servers(t, 2)
	now := time.Now().Add(-time.Hour)
	all[1].mustWrite(t, now, put("untouched", "x")) // before the backup
	stores[0].Saw(1_000_000)
	all[0].mustWrite(t, now, put("b", "1"))
	var last object.Revision
	for i := range 6 {
		last = all[1].mustWrite(t, now, put(fmt.Sprintf("k%d", i), "1"))
	}
	c := stores[1].Outdated("config", "/test/config/")
	records := c.KeepHistory()
	if done, err := c.Rewrite(contextFor(t), "", 100, 1); err != nil || done.Rewritten != 8 {
		t.Fatalf("got %+v, %v", done, err)
	}
	reader := history.NewReader(records, false)
	for upto := last; upto < last+10; upto++ {
		page, err := reader.Page(contextFor(t), history.Query{Limit: 10, From: history.Place{Upto: upto}})
		if err != nil || len(page.Entries) != 8 || page.Entries[0].Revision != last {
			t.Errorf("the page from revision %d has %v, %v, want all 8 writes", upto, page.Entries, err)
		}
	}
	if got, err := reader.At(contextFor(t), now.Add(time.Minute)); err != nil || got != last {
		t.Errorf("the time before the rewrite means revision %d, %v, want %d", got, err, last)
	}
	// The rewrites themselves have orders that continue those from before the restore.
	from, end := history.Latest(1)
	index, _, err := records.Read(contextFor(t), 0, []history.Range{{From: from, End: end, KeysOnly: true}})
	if err != nil {
		t.Fatal(err)
	}
	for _, record := range index[0] {
		if name, ok := history.ParseIndexKey(record.Key); !ok || name.Kind.IsReencryption() && name.Order.Seen() < 1_000_000 {
			t.Errorf("%q was encrypted again with an order from revision %d", name.Key, name.Order.Seen())
		}
	}
}

// In a restored etcd, another program may replace an object with the same revision that the server's own last write of
// it had before. The next write shows that as a gap.
func TestGapWithARememberedRevisionAfterARestore(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	t.Parallel()
	m := etcdproc.StartMember(t, "http")
	own := unmonitored(t, m)
	r := recordingIn(own)
	r.mustWrite(t, time.Now(), put("a", "1"))
	snapshot := m.Snapshot(t)
	for range 10 {
		r.mustWrite(t, time.Now(), put("b", "1"))
	}
	remembered := r.mustWrite(t, time.Now(), put("a", "2"))

	m.Kill(t)
	m.Restore(t, snapshot)
	m.Start(t)
	other := etcdClient(t, m.Address)
	for revision := object.Revision(0); revision < remembered; {
		key := "/elsewhere"
		if revision == remembered-1 {
			key = "/test/config/a"
		}
		resp, err := other.Put(contextFor(t), key, "other")
		if err != nil {
			t.Fatal(err)
		}
		revision = object.Revision(resp.Header.GetRevision())
	}
	poll.Until(t, "the server is connected again", func() bool {
		_, err := r.Revision(t.Context())
		return err == nil
	})

	last := r.mustWrite(t, time.Now(), put("a", "3"))
	page, err := history.NewReader(r.records, false).Page(contextFor(t), history.Query{Scope: object.ExactKey("a"), Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range page.Entries {
		got = append(got, fmt.Sprint(e.Kind, " ", e.Revision))
	}
	if want := fmt.Sprint(history.Written, " ", last, ", ", history.Gap, " ", remembered); !strings.HasPrefix(strings.Join(got, ", "), want) {
		t.Errorf("got the entries %v, want %s first", got, want)
	}
}
