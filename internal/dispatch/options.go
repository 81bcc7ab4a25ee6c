package dispatch

import (
	"time"

	"github.com/fanoutd/fanoutd/internal/object"
)

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

// Options configure what a watcher delivers and when. With the zero value, a watcher delivers
// every event as soon as possible and sends no bookmarks.
type Options struct {
	// Latest merges pending events per key.
	Latest bool

	// EveryEvent ends the watch with a [*LostError] or an [*EpochError] where other watches
	// get a DELTA or a RESET. Only the RESET with which a watch begins is allowed.
	EveryEvent bool

	// BookmarkInterval is the longest time without a message. Zero: no limit.
	BookmarkInterval time.Duration

	// LastBookmark is when to send the last bookmark, shortly before the watch ends. Zero:
	// never. The watches of a dispatcher have the one of their stream instead.
	LastBookmark time.Time

	// BatchDelay is the shortest time between two live messages. Events that come earlier
	// wait and leave together. The delay is at most BookmarkInterval, and ends at
	// LastBookmark. Zero: no delay.
	BatchDelay time.Duration
}
