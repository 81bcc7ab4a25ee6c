package catchup

import "github.com/fanoutd/fanoutd/internal/object"

// Begin is where a watch begins. This package and package direct use it.
type Begin struct {
	Kind     BeginKind
	Position object.Position // BeginFromPosition: the position; BeginFromNow: the present position
	Needed   object.Revision // the source must have reached this revision
	Exact    object.Revision // the revision of the snapshot; 0: any
}

// BeginKind is the kind of a [Begin].
type BeginKind uint8

// The kinds of beginnings.
const (
	BeginFromSnapshot BeginKind = iota // with a snapshot
	BeginFromPosition                  // with the changes since a position
	BeginFromNow                       // with the changes from now on
)

// FromSnapshot begins a watch with a snapshot at the given revision or a later one.
func FromSnapshot(needed object.Revision) Begin { return Begin{Needed: needed} }

// FromExactly begins a watch with the snapshot at a past revision of the source.
func FromExactly(at object.Revision) Begin { return Begin{Needed: at, Exact: at} }

// FromPosition begins a watch with the changes since a position. If the position belongs to
// the source's epoch, it must not be ahead of the source's state.
func FromPosition(p object.Position) Begin { return Begin{Kind: BeginFromPosition, Position: p} }

// FromNow begins a watch with the changes after the position of a recent state. A source
// without a cache uses the position only as a lower bound, and begins at its own present
// position.
func FromNow(now object.Position) Begin {
	return Begin{Kind: BeginFromNow, Position: now, Needed: now.Revision}
}
