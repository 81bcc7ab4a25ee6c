package cacher

import (
	"context"
	"fmt"
	"iter"

	"github.com/fanoutd/fanoutd/internal/object"
)

// History returns the objects of the scope with keys from start on as they were at
// a revision, in ascending order of keys, read from the store page by page. It is
// for revisions that the window does not reach back to. An error ends it; it wraps
// [object.ErrCompacted] where the store has forgotten the revision, too.
func (c *Cacher) History(ctx context.Context, at object.Revision, scope object.Scope, start object.Key) iter.Seq2[*object.Object, error] {
	return func(yield func(*object.Object, error) bool) {
		start := max(start, scope.First())
		for {
			records, more, err := c.cfg.Store.List(ctx, at, start, c.cfg.PageSize)
			if err != nil {
				yield(nil, fmt.Errorf("list at revision %d: %w", at, err))
				return
			}
			for i := range records {
				if !scope.Contains(records[i].Key) {
					return // the keys of a scope are next to each other
				}
				o, _ := c.decode(&records[i])
				if !yield(o, nil) {
					return
				}
			}
			if !more {
				return
			}
			start = records[len(records)-1].Key + "\x00"
		}
	}
}
