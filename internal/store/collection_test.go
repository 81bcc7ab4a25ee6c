package store_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/store"
)

// list reads all records in pages of the given size.
func list(t *testing.T, c *store.Collection, at object.Revision, page int) []object.Record {
	t.Helper()
	var all []object.Record
	for start := object.Key(""); ; {
		records, more, err := c.List(contextFor(t), at, object.Scope{}, start, page)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, records...)
		if !more {
			return all
		}
		start = records[len(records)-1].Key + "\x00"
	}
}

func TestListInPagesAtOneRevision(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	both(t, func(t *testing.T, e *etcd) {
		c := e.collection()
		var at object.Revision
		for i := range 7 {
			at = commit(t, c, put(fmt.Sprintf("k%d", i), "old"))
		}
		commit(t, c, put("k3", "new"), remove("k5"), put("k9", "new"))
		// Keys next to the prefix do not belong to the collection.
		for _, key := range []string{"/tes", "/test", "/test0", "/tesu/k"} {
			if _, err := e.client.Put(t.Context(), key, "other"); err != nil {
				t.Fatal(err)
			}
		}
		for _, page := range []int{1, 2, 3, 7, 100} {
			if got := show(list(t, c, at, page)); got != "k0=old k1=old k2=old k3=old k4=old k5=old k6=old" {
				t.Errorf("with pages of %d: got %s, want all keys as of revision %d", page, got, at)
			}
		}
		now, err := c.Revision(contextFor(t))
		if err != nil {
			t.Fatal(err)
		}
		if got := show(list(t, c, now, 3)); got != "k0=old k1=old k2=old k3=new k4=old k6=old k9=new" {
			t.Errorf("at the current revision: got %s", got)
		}
		r := list(t, c, now, 100)[3]
		if r.CreateRevision != at-3 || r.ModRevision != at+1 || r.Version != 2 {
			t.Errorf("got k3 as %+v, want create revision %d, mod revision %d, version 2", r, at-3, at+1)
		}
	})
}

func TestRevisionHasTheLatestWrite(t *testing.T) {
	both(t, func(t *testing.T, e *etcd) {
		c := e.collection()
		for range 100 {
			at := commit(t, c, put("k", "v"))
			if got, err := c.Revision(contextFor(t)); err != nil || got != at {
				t.Fatalf("got the revision %d, %v after a write at %d", got, err, at)
			}
		}
	})
}

func TestInvalidKeysAreOmitted(t *testing.T) {
	both(t, func(t *testing.T, e *etcd) {
		c := e.collection()
		stream := watch(t, c, 1)
		for _, key := range []string{prefix, prefix + "\xff1", prefix + "\xff2", prefix + "\xff1", prefix + "ok"} {
			if _, err := e.client.Put(t.Context(), key, "v"); err != nil {
				t.Fatal(err)
			}
		}
		if got := show(next(t, stream).Records); got != "ok=v" {
			t.Errorf("the watch has %s, want ok=v", got)
		}
		now, err := c.Revision(contextFor(t))
		if err != nil {
			t.Fatal(err)
		}
		if got := show(list(t, c, now, 1)); got != "ok=v" {
			t.Errorf("the list has %s, want ok=v", got)
		}
		if n := c.OmittedKeys(); n != 3 {
			t.Errorf("got %d omitted keys, want 3", n)
		}
	})
}

func TestOldestIsTheCompactedRevision(t *testing.T) {
	both(t, func(t *testing.T, e *etcd) {
		c := e.collection()
		var now object.Revision
		for i := range 20 {
			now = commit(t, c, put("k", fmt.Sprint(i)))
		}
		oldest := func(floor object.Revision) object.Revision {
			t.Helper()
			r, err := c.Oldest(contextFor(t), floor, now)
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		if got := oldest(1); got != 1 {
			t.Errorf("without a compaction: got %d, want 1", got)
		}
		const compacted = 10
		if _, err := e.client.Compact(t.Context(), compacted, clientv3.WithCompactPhysical()); err != nil {
			t.Fatal(err)
		}
		for floor, want := range map[object.Revision]object.Revision{1: compacted, compacted: compacted, 15: 15, now: now} {
			if got := oldest(floor); got != want {
				t.Errorf("from %d on: got %d, want %d", floor, got, want)
			}
		}
		if _, _, err := c.List(contextFor(t), compacted-1, object.Scope{}, "", 10); !errors.Is(err, object.ErrCompacted) {
			t.Errorf("list before the compacted revision: got %v, want %v", err, object.ErrCompacted)
		}
		if _, _, err := c.List(contextFor(t), compacted, object.Scope{}, "", 10); err != nil {
			t.Errorf("list at the compacted revision: %v", err)
		}
	})
}

func TestCancelledCallsReturnTheErrorOfTheContext(t *testing.T) {
	both(t, func(t *testing.T, e *etcd) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		c := e.collection()
		if _, err := c.Revision(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("Revision: %v", err)
		}
		if _, _, err := c.List(ctx, 1, object.Scope{}, "", 1); !errors.Is(err, context.Canceled) {
			t.Errorf("List: %v", err)
		}
		if _, err := c.Commit(ctx, []object.Op{put("k", "v")}); !errors.Is(err, context.Canceled) {
			t.Errorf("Commit: %v", err)
		}
		stream := watch(t, c, 1)
		if _, err := stream.Next(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("Next: %v", err)
		}
	})
}

// A page of large records has fewer of them.
func TestPagesAreBoundedByBytes(t *testing.T) {
	c := embedded(t, store.EmbeddedConfig{}).collection()
	const n, size = 48, 1 << 20
	var at object.Revision
	for i := range n {
		at = commit(t, c, put(fmt.Sprintf("k%02d", i), strings.Repeat("x", size)))
	}
	for _, most := range []int{32, 16} { // the sizes are not known before the first list
		total, more := 0, true
		for start := object.Key(""); more; {
			var records []object.Record
			var err error
			if records, more, err = c.List(contextFor(t), at, object.Scope{}, start, 1000); err != nil {
				t.Fatal(err)
			}
			if len(records) > most {
				t.Errorf("got a page of %d records of 1 MiB, want at most %d", len(records), most)
			}
			total += len(records)
			start = records[len(records)-1].Key + "\x00"
		}
		if total != n {
			t.Errorf("got %d records, want %d", total, n)
		}
	}
}
