package dispatch

import (
	"time"

	"github.com/fanoutd/fanoutd/internal/object"
)

// Begin says where a watcher begins.
type Begin struct {
	first  step
	at     object.Position
	needed object.Revision
	exact  object.Revision
}

// FromSnapshot begins with a state that is not older than needed.
func FromSnapshot(needed object.Revision) Begin { return Begin{first: beginReset, needed: needed} }

// FromExactly begins with the state at a revision of the source's past.
func FromExactly(at object.Revision) Begin { return Begin{first: beginReset, exact: at, needed: at} }

// After begins with what changed since the position, which must not lie ahead of
// the source's state if it is of the same epoch.
func After(p object.Position) Begin { return Begin{first: beginResume, at: p} }

// FromNow begins with what changes after the position of a recent state.
func FromNow(now object.Position) Begin { return Begin{first: beginNow, at: now} }

// Options say how a watcher wants to be told. The zero value is every event, as
// soon as possible, and no bookmarks.
type Options struct {
	// Latest merges what waits per key.
	Latest bool

	// EveryEvent ends the watch with [*LostError] or [*EpochError] where
	// otherwise a DELTA or a RESET would bring the watcher to the present.
	EveryEvent bool

	// BookmarkInterval is how long nothing may be said. Zero: for ever.
	BookmarkInterval time.Duration

	// LastBookmark is when to say a last time where the watcher is, because it
	// ends soon after. Zero: never.
	LastBookmark time.Time

	// BatchDelay is how long after a message with live events the next one waits
	// for more of them. Zero: not at all.
	BatchDelay time.Duration

	// Follower serves the watcher on a lane. Nil: Next waits for messages.
	Follower Follower
}
