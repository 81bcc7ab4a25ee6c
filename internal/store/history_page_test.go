package store_test

import (
	"context"
	"testing"
	"time"

	"github.com/fanoutd/fanoutd/internal/history"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/store"
)

// counting counts the ranges that are read.
type counting struct {
	history.Store
	ranges int
}

func (c *counting) Read(ctx context.Context, at object.Revision, ranges []history.Range) ([][]object.Record, object.Revision, error) {
	for _, r := range ranges {
		if r.End != "" {
			c.ranges++
		}
	}
	return c.Store.Read(ctx, at, ranges)
}

// etcd walks a whole range of keys. A page of one key reads few of them, however many records it has.
func TestPageOfOneKeyReadsFewRanges(t *testing.T) {
	e := embedded(t, store.EmbeddedConfig{})
	r := recordingIn(e.Store)
	const writes = 50
	for range writes {
		r.mustWrite(t, time.Now(), put("a", "x"))
		r.mustWrite(t, time.Now(), remove("a"))
	}
	count := &counting{Store: r.records}
	for _, scope := range []object.Scope{object.ExactKey("a"), {}} {
		count.ranges = 0
		page, err := history.NewReader(count, false).Page(contextFor(t), history.Query{Scope: scope, Limit: 2 * writes})
		if err != nil || len(page.Entries) != 2*writes {
			t.Fatalf("got %d entries, %v", len(page.Entries), err)
		}
		if count.ranges > 10 {
			t.Errorf("the page has read %d ranges", count.ranges)
		}
	}
}
