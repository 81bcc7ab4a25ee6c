package client

import (
	"context"
	"fmt"
	"iter"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// Update is one step of a watch: events, and the position that the caller has reached
// after applying them. An update may have no events; it then only moves the position,
// or confirms it.
type Update struct {
	// Phase is the stage of the watch, such as a new state that replaces what the
	// caller has.
	Phase Phase
	// Delta says that Events are the difference between the caller's position and
	// Position, and not every change in between: they have the latest state of each
	// object that changed, and Deleted has only the key. This happens after a long
	// interruption, and if etcd has compacted changes before the servers could read
	// them. [EveryEvent] turns it into an error. The phase of such an update is PhaseSynced.
	Delta bool
	// Events are in order of their revisions; in a new state, in order of their keys.
	Events []Event
	// AsOf is a time, by the clock of this process, at which the state at Position was
	// current. Usually it is one second before the update arrived. It is earlier if the
	// server has lost etcd, or if the caller is slow. AsOf is zero during a catch-up.
	AsOf time.Time
	// Position is the place to resume at, with [After], once the events are applied.
	// Its revision is 0 while the state is not complete ([Phase.Complete]).
	Position Position
}

// EventType is the kind of change that a watch saw of an object.
type EventType uint8

// The types of events.
const (
	Added    EventType = iota + 1 // the object came into view
	Modified                      // the object changed
	Deleted                       // the object left the view
)

// String returns the name of the type, as in "ADDED".
func (t EventType) String() string {
	switch t {
	case Added:
		return "ADDED"
	case Modified:
		return "MODIFIED"
	case Deleted:
		return "DELETED"
	}
	return fmt.Sprintf("EventType(%d)", uint8(t))
}

// Event is the change of one object. Apply events by key: after an interruption an
// event may be Modified for an object that the caller does not have, or Deleted for
// one that it never had.
type Event struct {
	Type EventType
	// Revision is the etcd revision of the change. For Added and Modified it is the
	// ModRevision of the object.
	Revision int64
	// Object is the object after the change. For Deleted it is the last content in
	// view, or the key alone.
	Object *Object
	// Previous is the object before the change, if the watch asked for it and the
	// server knows it.
	Previous *Object
}

// Watch returns the state of the resource, then every change, until ctx ends or the
// caller stops iterating. The package documentation shows how to apply the updates.
//
// Guarantees:
//
//   - Ordered: revisions never decrease, except where [PhaseReset] begins a new state.
//   - Unique: no event is delivered twice, not even across an interruption.
//   - Reliable: no change is missing between two positions, except in an update with
//     Delta. Such an update comes if an interruption outlasts the memory of the servers,
//     or if the servers have lost changes. [Latest] merges events in a similar way for a
//     slow reader.
//   - Atomic: all changes of one revision, such as those of a transaction, are in one
//     update.
//   - Resumable: a Position of a complete state can be given to [After] in
//     another process, and works at any server over the same etcd.
//
// To keep the last two promises, the client holds events back while a revision that
// is too large for one message arrives, and while the servers send a difference (a
// catch-up of kind DELTA). A stream that breaks meanwhile
// leaves nothing behind. Such a difference is in memory as a whole before the caller
// gets it, in one update; it has at most one event for each key.
//
// A lost server does not end the watch: it reconnects, to another server if there is
// one, after growing random delays, and resumes at its position. A server that is
// silent for too long counts as lost ([BookmarkInterval]). If the servers no longer
// know the position, an update in PhaseReset begins a new state.
//
// The client reads only a bounded amount ahead of the caller. A caller that is slow for a long time
// gets the difference instead of every change.
//
// An update counts as applied when the caller asks for the next one. The client reports to the
// server how far the watch is applied, except with [WithoutReports]; see the package documentation.
//
// An error is the last value of the iteration. It is the error of ctx, [ErrClosed], or
// an error that no retry can help: one with the code InvalidArgument, NotFound,
// PermissionDenied, Unimplemented, OutOfRange, FailedPrecondition or Unauthenticated
// (after one attempt with a renewed token or certificate), or [ErrRequestTooLarge].
// An error without a [Reason] comes from a proxy between the client and the servers;
// unless it is Unauthenticated, it does not end a watch that has worked before.
func (r *Resource) Watch(ctx context.Context, opts ...WatchOption) iter.Seq2[*Update, error] {
	return func(yield func(*Update, error) bool) {
		w := r.newWatcher(opts)
		applied := func(*Update) {}
		if !w.unreported {
			applied = w.reportApplied()
		}
		err := w.run(ctx, func(u *Update) bool {
			if !yield(u, nil) {
				return false
			}
			applied(u)
			return true
		})
		if err != nil {
			yield(nil, fmt.Errorf("watch %s: %w", r.name, err))
		}
	}
}

func (r *Resource) newWatcher(opts []WatchOption) *watcher {
	w := &watcher{
		client:      r.client,
		watchConfig: watchConfig{req: &fanoutv1.WatchRequest{Resource: r.name, JsonValues: r.jsonValues, Subscriber: r.client.subscriber}, bookmarks: DefaultBookmarkInterval},
		backoff:     backoff{first: 200 * time.Millisecond, most: 5 * time.Second},
		reporter:    &reporter{},
	}
	w.reports = &streamReports{reporter: w.reporter}
	for _, o := range opts {
		o.watch(&w.watchConfig)
	}
	w.req.BookmarkInterval = durationpb.New(w.bookmarks)
	w.consistency = w.req.GetConsistency()
	w.at = w.after
	return w
}

// reportApplied makes the watch report what its caller has applied: each update when the caller
// asks for the next one.
func (w *watcher) reportApplied() (applied func(*Update)) {
	w.callerMayBeBusy = true
	f := w.failures
	if f == nil {
		f = &Failures{}
	}
	f.mu.Lock()
	f.reporter = w.reporter
	f.mu.Unlock()
	w.reporter.progress = f.progress
	return func(u *Update) {
		if u.Phase.Complete() {
			f.moveTo(u.Position)
			w.reporter.wake()
		}
	}
}
