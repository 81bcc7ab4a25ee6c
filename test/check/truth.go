package check

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"sort"

	"github.com/fanoutd/fanoutd/internal/object"
)

// Change is one put or delete of a key at a revision, with the object before and after it. At
// least one of Old and New is set.
type Change struct {
	Revision object.Revision
	Key      object.Key
	Old      *object.Decoded // nil: the key did not exist
	New      *object.Decoded // nil: the key was deleted
}

// Truth is the history of a resource as etcd recorded it.
type Truth struct {
	// Through is the last revision of the truth. It has every change up to there.
	Through object.Revision

	Conditions

	changes []Change            // in order of revision, with Old filled in
	at      map[version]*Change // the change of a key at a revision
	keys    []object.Key        // all that ever existed, sorted
	byKey   map[object.Key][]*Change
}

// version names a change: etcd changes a key at most once per revision.
type version struct {
	key      object.Key
	revision object.Revision
}

// NewTruth returns the truth of the given puts and deletes. New is the object that was put,
// or nil for a delete. NewTruth sets Old. It returns an error if the changes contradict each
// other, so that a broken recording is not mistaken for a broken server.
func NewTruth(changes []Change, through object.Revision) (*Truth, error) {
	t := &Truth{
		Through: through,
		changes: slices.Clone(changes),
		at:      map[version]*Change{},
		byKey:   map[object.Key][]*Change{},
	}
	last := object.Revision(0)
	for i := range t.changes {
		c := &t.changes[i]
		if c.Revision < last {
			return nil, fmt.Errorf("truth: %q at revision %d comes after revision %d", c.Key, c.Revision, last)
		}
		last = c.Revision
		if t.at[version{c.Key, c.Revision}] != nil {
			return nil, fmt.Errorf("truth: %q changes twice at revision %d", c.Key, c.Revision)
		}
		c.Old = nil
		if before := t.byKey[c.Key]; len(before) > 0 {
			c.Old = before[len(before)-1].New
		}
		if err := consistent(c); err != nil {
			return nil, fmt.Errorf("truth: %q at revision %d: %w", c.Key, c.Revision, err)
		}
		t.at[version{c.Key, c.Revision}] = c
		t.byKey[c.Key] = append(t.byKey[c.Key], c)
	}
	if last > through {
		return nil, fmt.Errorf("truth: has a change at revision %d, but goes to %d only", last, through)
	}
	t.keys = slices.Sorted(maps.Keys(t.byKey))
	return t, nil
}

// consistent checks the revisions and the version of a key against those before.
func consistent(c *Change) error {
	switch {
	case c.New == nil && c.Old == nil:
		return fmt.Errorf("deleted, but it did not exist")
	case c.New == nil:
		return nil
	case c.New.Key != c.Key:
		return fmt.Errorf("is the change of another key, %q", c.New.Key)
	case c.New.ModRevision != c.Revision:
		return fmt.Errorf("has mod revision %d", c.New.ModRevision)
	}
	create, v := c.Revision, int64(1)
	if c.Old != nil {
		create, v = c.Old.CreateRevision, c.Old.Version+1
	}
	if c.New.CreateRevision != create || c.New.Version != v {
		return fmt.Errorf("has create revision %d and version %d, should be %d and %d", c.New.CreateRevision, c.New.Version, create, v)
	}
	return nil
}

// Len returns the number of changes.
func (t *Truth) Len() int { return len(t.changes) }

// Has reports whether the key changed at the revision.
func (t *Truth) Has(key object.Key, at object.Revision) bool { return t.at[version{key, at}] != nil }

// Before returns the revision with n changes after it and up to another. It may have more, because
// revisions are whole.
func (t *Truth) Before(through object.Revision, n int) object.Revision {
	i := sort.Search(len(t.changes), func(i int) bool { return t.changes[i].Revision > through })
	switch {
	case n == 0:
		return through
	case i <= n:
		return 0
	}
	return t.changes[i-n].Revision - 1
}

// Between returns the changes of the scope after one revision and up to another.
func (t *Truth) Between(scope object.Scope, after, through object.Revision) iter.Seq[*Change] {
	return func(yield func(*Change) bool) {
		i := sort.Search(len(t.changes), func(i int) bool { return t.changes[i].Revision > after })
		for ; i < len(t.changes) && t.changes[i].Revision <= through; i++ {
			if c := &t.changes[i]; scope.Contains(c.Key) && !yield(c) {
				return
			}
		}
	}
}

// State returns the objects of the scope at a revision, in order of keys.
func (t *Truth) State(scope object.Scope, at object.Revision) []*object.Decoded {
	var state []*object.Decoded
	for _, key := range t.keys {
		if !scope.Contains(key) {
			continue
		}
		if o := t.object(key, at); o != nil {
			state = append(state, o)
		}
	}
	return state
}

// last returns the last change of a key up to a revision, or nil.
func (t *Truth) last(key object.Key, at object.Revision) *Change {
	changes := t.byKey[key]
	n := sort.Search(len(changes), func(i int) bool { return changes[i].Revision > at })
	if n == 0 {
		return nil
	}
	return changes[n-1]
}

// object returns the object that a key has at a revision, or nil.
func (t *Truth) object(key object.Key, at object.Revision) *object.Decoded {
	if c := t.last(key, at); c != nil {
		return c.New
	}
	return nil
}
