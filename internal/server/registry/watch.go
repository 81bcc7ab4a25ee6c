package registry

import (
	"sync"
	"time"

	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/backend"
)

// Watch is a watch of any entrance. It embeds a [Registration], so only [Registry.AdmitWatch] can admit
// it. Any goroutine may call its methods, from when the watch has begun.
type Watch interface {
	registration() *Registration
	Resource() string
	Scope() object.Scope

	// Caller returns the caller of the RPC that carries the watch.
	Caller() *Caller

	// Number returns the number in the id of the watch.
	Number() Number

	// Mutex returns the mutex of what changes in the Registration. It is the entrance's, because it also
	// orders reports and the messages that they are about. It is held for moments only.
	Mutex() *sync.Mutex

	// MayHave returns the position of the latest message that the client may have received. It is
	// called with Mutex held.
	MayHave() object.Position

	// Progress returns what was sent to the watch and what waits for it.
	Progress() Progress

	// Unapplied returns the events after a position that the client has applied. It is called for
	// resources with a cache.
	Unapplied(applied object.Position) feed.Backlog

	// Quiet reports whether nothing concerns the watch after the applied position, up to and
	// including a revision. It returns false if that is unknown.
	Quiet(applied object.Position, to object.Revision) bool

	// End ends the watch with a reason.
	End(reason error)
}

// Progress is what was sent to a watch and what waits for it.
type Progress struct {
	Position   object.Position // of the latest message; zero: there was none
	CatchingUp bool
	Blocked    bool  // a message waits for the client
	Messages   int64 // messages that gRPC has accepted
	Bytes      int64 // their size

	// Backlog has the events that wait for the watch after Position. Without a cache, and within a
	// RESET, it means nothing.
	Backlog feed.Backlog

	// Shared identifies what several watches of a stream share: equal values have equal Position and
	// Backlog. Nil: nothing is shared.
	Shared any
}

// RPC is a request that carries watches: a Watch carries one, a Subscribe any number. Any goroutine
// may call its methods while it is registered.
type RPC interface {
	// Caller returns the caller. It does not change while the RPC is registered.
	Caller() *Caller

	// Len returns the number of watches that have begun.
	Len() int

	// Each calls a function for the watches that have begun and have the index or a higher one, in
	// the order of their indexes, until the function returns false. It reports whether the function
	// never did.
	Each(from uint32, yield func(Watch) bool) bool

	// Find returns the watch with the index that has begun, or nil.
	Find(index uint32) Watch

	// EndAll ends all watches with a reason, and then the RPC.
	EndAll(reason error)

	// CheckFence is [grpcmsg.SendWindow.CheckFence] of the stream.
	CheckFence(now time.Time)
}

// Lags has what several watches of one answer share: how far they are behind. The keys are those of
// Progress.Shared. With nil, nothing is shared.
type Lags map[any]Lagging

// maxLags limits the memory of Lags, because each of a million watches may share with none. Watches
// that share belong to one stream, and follow each other.
const maxLags = 1024

// note adds how far watches are behind. It does nothing if they share nothing.
func (l Lags) note(shared any, lag Lagging) {
	if l == nil || shared == nil {
		return
	}
	if len(l) >= maxLags {
		clear(l)
	}
	l[shared] = lag
}

// Lagging describes how far a watch is behind.
type Lagging struct {
	Backlog feed.Backlog
	Lag     backend.Lag
	Known   bool // Backlog and Lag are known: the resource has a cache, and the watch has a position
}
