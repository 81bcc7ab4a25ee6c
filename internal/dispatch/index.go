package dispatch

import (
	"iter"
	"slices"

	"github.com/fanoutd/fanoutd/internal/object"
)

// index finds the feeds that a change may concern without looking at the others:
// those of the whole resource, of each ancestor path of its key, and of the key.
type index map[object.Scope][]*feed

func (x index) add(f *feed) {
	x[f.interest.Scope] = append(x[f.interest.Scope], f)
}

func (x index) remove(f *feed) {
	scope := f.interest.Scope
	i := slices.Index(x[scope], f)
	if rest := slices.Delete(x[scope], i, i+1); len(rest) > 0 {
		x[scope] = rest
	} else {
		delete(x, scope)
	}
}

// concerned returns the feeds that a change of the key may concern.
func (x index) concerned(key object.Key) iter.Seq[*feed] {
	return func(yield func(*feed) bool) {
		for scope := range object.ScopesOf(key) {
			for _, f := range x[scope] {
				if !yield(f) {
					return
				}
			}
		}
	}
}
