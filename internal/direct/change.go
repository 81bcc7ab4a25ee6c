package direct

import (
	"cmp"
	"slices"

	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/object"
)

// change makes the change that a record tells, or returns false where it is not
// known what was there before.
func (s *Source) change(r, previous *object.Record) (object.Change, bool) {
	c := object.Change{Revision: r.ModRevision, Key: r.Key}
	if !r.Deleted {
		c.New = s.build(r)
	}
	if previous != nil {
		c.Old = s.build(previous)
		return c, true
	}
	return c, !r.Deleted && r.CreateRevision == r.ModRevision
}

// merge returns the changes, each of which the interest sees, with those of one key
// merged into one, from what was before the first to what is after the last, in order
// of the last. What comes to nothing for the interest is left out, but for who
// resumes: it is told that what came and went is gone, because a part of a message
// that it was cut off in may have told it that it came.
func merge(changes []object.Change, i *dispatch.Interest, resumes bool) []object.Change {
	all, last := map[object.Key]object.Change{}, map[object.Key]object.Change{}
	for _, c := range changes {
		last[c.Key] = c
		if first, ok := all[c.Key]; ok {
			c.Old = first.Old
		}
		all[c.Key] = c
	}
	var merged []object.Change
	for key, c := range all {
		_, ok := i.See(&c)
		if !ok && resumes {
			c, ok = last[key], true
		}
		if ok {
			merged = append(merged, c)
		}
	}
	slices.SortFunc(merged, func(a, b object.Change) int {
		return cmp.Or(cmp.Compare(a.Revision, b.Revision), cmp.Compare(a.Key, b.Key))
	})
	return merged
}
