package watch

import (
	"iter"
	"time"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/apierr"
	"github.com/fanoutd/fanoutd/internal/server/backend"
	"github.com/fanoutd/fanoutd/internal/server/frames"
)

// Watch is a watch in the [Registry]: an [*Entry], or a watch of a Subscribe stream. Any
// goroutine may call its methods.
type Watch interface {
	// ID returns the id of the watch in the answers to operators.
	ID() string

	// Number returns the number in the id.
	Number() Number

	// Resource returns the name of the resource.
	Resource() string

	// Scope returns the scope of the watch.
	Scope() object.Scope

	// End ends the watch with a reason.
	End(reason error)

	// Status returns what ListWatchers shows of the watch.
	Status(Lags) *fanoutv1.WatcherStatus

	// Condition returns what metrics need to know of the watch.
	Condition(Lags) Condition

	// Subscriber returns the name of the client's program.
	Subscriber() SubscriberName

	// Reports reports whether the client reports what it has applied: it has said so, or has
	// reported.
	Reports() bool

	// Reported returns the latest report of the client.
	Reported() Reported

	// Quiet reports whether nothing concerns the watch after the applied position, up to and
	// including a revision. It returns false if that is unknown.
	Quiet(applied object.Position, to object.Revision) bool
}

// Lags has what several watches of one answer share: how far their watcher is behind. The keys
// are those of [dispatch.StreamWatch.Shared]. With nil, nothing is shared.
type Lags map[any]Lagging

// maxLags limits the memory of Lags, because each of a million watches may have a watcher of its
// own. Watches that share a watcher belong to one stream, and follow each other.
const maxLags = 1024

// Note adds how far a watcher is behind. It does nothing if the watches do not share it.
func (l Lags) Note(shared any, lag Lagging) {
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
	Backlog dispatch.Backlog
	Lag     backend.Lag
	Known   bool // Backlog and Lag are known; see Entry.lag
}

// Stream is a Subscribe stream in the [Registry]. Any goroutine may call its methods.
type Stream interface {
	// Conn returns the connection of the stream, or nil if it is within the process.
	Conn() *frames.Conn

	// Len returns the number of watches.
	Len() int

	// After returns the watches with a higher index, in the order of their indexes.
	After(index uint32) iter.Seq[Watch]

	// Find returns the watch with the index, or nil.
	Find(index uint32) Watch

	// Reexamine ends the watches whose rights are lost, or all watches if the credentials of
	// the stream are lost. It returns the number of watches that it ended.
	Reexamine() int

	// EndAll ends all watches with a reason, and then the stream.
	EndAll(reason error)

	// CheckFence is [SendWindow.CheckFence] of the stream.
	CheckFence(now time.Time)
}

// RegisterStream adds a stream, which the caller must unregister, and returns its number. If
// the server drains, it returns [apierr.ErrDraining], and the client tries again on another
// connection.
func (r *Registry) RegisterStream(s Stream) (number uint64, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.draining {
		if conn := s.Conn(); conn != nil {
			conn.GoAway()
		}
		return 0, apierr.ErrDraining
	}
	r.latest++
	r.rpcs.add(registeredRPC{number: r.latest, stream: s})
	return r.latest, nil
}

// UnregisterStream removes a stream that has ended.
func (r *Registry) UnregisterStream(number uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rpcs.remove(number)
	r.checkEmpty()
}

// CountBegun counts a watch of a stream that has begun.
func (r *Registry) CountBegun(resource string) {
	r.streamWatches.Add(1)
	r.garbage.note(r.begunAndEnded.Add(1))
	r.counts.add(resource)
}

// CountEnded counts a watch of a stream that has ended. It takes no more reports. The argument failing
// reports whether the last one had an error.
func (r *Registry) CountEnded(resource string, failing bool) {
	r.streamWatches.Add(-1)
	r.garbage.note(r.begunAndEnded.Add(1))
	r.counts.remove(resource, failing)
}

// NoteReport counts a watch of a stream as failing, or no longer. The last report before had an error,
// and the latest one has none, or the other way round.
func (r *Registry) NoteReport(resource string, failing bool) {
	r.counts.noteReport(resource, failing)
}
