package store_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

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

func TestKeysNextToThePrefixAreNoObjects(t *testing.T) {
	both(t, func(t *testing.T, e *etcd) {
		c := e.collection()
		commit(t, c, put("k", "v"))
		for _, key := range []string{"/tes", "/test", "/test0", "/tesu/k"} {
			if _, err := e.client.Put(t.Context(), key, "other"); err != nil {
				t.Fatal(err)
			}
		}
		now, err := c.Revision(contextFor(t))
		if err != nil {
			t.Fatal(err)
		}
		for _, page := range []int{1, 100} {
			if got := show(list(t, c, now, page)); got != "k=v" {
				t.Errorf("with pages of %d: got %s, want k=v", page, got)
			}
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
