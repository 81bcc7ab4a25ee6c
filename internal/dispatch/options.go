package dispatch

import (
	"time"

	"github.com/fanoutd/fanoutd/internal/object"
)

// Begin is the starting point of a watch, of this package or of package direct.
type Begin struct {
	Kind     BeginKind
	Position object.Position // BeginResume: where; BeginNow: the present position
	Needed   object.Revision // the source must have reached this revision
	Exact    object.Revision // the revision of the snapshot; 0: any
}

// BeginKind is the kind of a [Begin].
type BeginKind uint8

// The kinds of beginnings.
const (
	BeginSnapshot BeginKind = iota // with a snapshot
	BeginResume                    // with the changes since a position
	BeginNow                       // with the changes from now on
)

// FromSnapshot begins with a snapshot that is not older than needed.
func FromSnapshot(needed object.Revision) Begin { return Begin{Needed: needed} }

// FromExactly begins with the snapshot at a past revision of the source.
func FromExactly(at object.Revision) Begin { return Begin{Needed: at, Exact: at} }

// After begins with the changes since a position. If the position is of the source's epoch,
// it must not be ahead of the source's state.
func After(p object.Position) Begin { return Begin{Kind: BeginResume, Position: p} }

// FromNow begins with the changes after the position of a recent state. A source without a
// cache uses the position only as a lower bound, and begins at its own present position.
func FromNow(now object.Position) Begin {
	return Begin{Kind: BeginNow, Position: now, Needed: now.Revision}
}

// Options configure what a watcher delivers and when. The zero value delivers every event as soon
// as possible, and no bookmarks.
type Options struct {
	// Latest merges pending events per key.
	Latest bool

	// EveryEvent ends the watch with [*LostError] or [*EpochError] instead of a DELTA, and
	// instead of a RESET other than the first snapshot.
	EveryEvent bool

	// BookmarkInterval is the longest time without a message. Zero: no limit.
	BookmarkInterval time.Duration

	// LastBookmark is when to send the last bookmark, because the watch ends soon
	// afterwards. Zero: never.
	LastBookmark time.Time

	// BatchDelay is the shortest time between two live messages. Events wait for it and
	// leave together. It is at most BookmarkInterval, and ends at LastBookmark. Zero: no
	// delay.
	BatchDelay time.Duration
}
