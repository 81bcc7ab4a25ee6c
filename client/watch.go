package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// Update is what a watch has to tell: events, and the position to which they lead.
// An update without events is a sign of life, and its position may be new.
type Update struct {
	// Replace says that what the caller has is void: the events from here on, all
	// of them [Added], are the new state. It is complete with Synced. A second
	// Replace may come before that, and then the first one is void, too.
	Replace bool
	// Events are in order.
	Events []Event
	// Synced says that the caller has caught up: it has the state at the position.
	// So it never comes without Complete.
	Synced bool
	// Position is where to resume, with [After], once the events are dealt with. It
	// stays where it is until what belongs together is complete, such as a large
	// transaction or what was missed in an interruption; Complete is false then. Its
	// revision is 0 while a state is replaced.
	Position Position
	// Complete says that the events have led to a state that exists at a revision,
	// the one of Position. Else more events belong to these.
	Complete bool
}

// EventType says how the view of a watcher changed.
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

// Event is a change. After an interruption an event may be Modified for an object
// that the caller does not have, or Deleted for one that it never had: apply events
// by key.
type Event struct {
	Type EventType
	// Object is the object after the change; for Deleted the last one that was in
	// view, or nothing but its key, with ModRevision being where it left.
	Object *Object
	// Previous is the object before the change, if that was asked for and is known.
	Previous *Object
}

// ErrClosed ends the watches of a client that is closed.
var ErrClosed = errors.New("the client is closed")

// Watch tells the state of the resource and then every change, for as long as the
// caller likes. It survives the loss of its server: it connects again, to another
// server if there is one, with growing and random delays, and resumes where it was.
// If the servers no longer know that place, they tell what is different now; if they
// do not know that either, an update with Replace begins the state anew. A server
// that is silent for too long is taken for dead ([BookmarkInterval]).
//
// Events come once and in order, also across interruptions; of those there are two
// kinds that are missing: what is made up for by a later event of the same key after
// an interruption that was too long (use [EveryEvent] to be told), and what [Latest]
// merges.
//
// The caller's pace is the pace of the watch: nothing is read ahead but what gRPC's
// flow control lets through, and a caller who takes too long is brought up to date
// by what is different. What is kept in memory is the keys of incomplete changes.
//
// An error is the last thing that is returned: that of ctx, [ErrClosed], or one that
// trying again does not help, which are those with the codes InvalidArgument,
// NotFound, PermissionDenied, Unimplemented, OutOfRange, FailedPrecondition,
// Unauthenticated if a new token or certificate is refused as well, and
// [ErrRequestTooLarge]. Of these, the ones without a [Reason] are made between the client
// and the servers, and do not end a watch that was told something before, except for
// Unauthenticated.
func (r *Resource) Watch(ctx context.Context, opts ...WatchOption) iter.Seq2[*Update, error] {
	return func(yield func(*Update, error) bool) {
		w := r.newWatcher(opts)
		err := w.run(ctx, func(u *Update) bool { return yield(u, nil) })
		if err != nil {
			yield(nil, fmt.Errorf("watch %s: %w", r.name, err))
		}
	}
}

func (r *Resource) newWatcher(opts []WatchOption) *watcher {
	w := &watcher{
		client:   r.client,
		watching: watching{req: &fanoutv1.WatchRequest{Resource: r.name}, bookmarks: DefaultBookmarkInterval},
		retry:    retry{first: 200 * time.Millisecond, most: 5 * time.Second},
	}
	for _, o := range opts {
		o.watch(&w.watching)
	}
	w.req.BookmarkInterval = durationpb.New(w.bookmarks)
	w.consistency = w.req.GetConsistency()
	w.at = w.after
	return w
}
