package backend

import (
	"context"
	"iter"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/sendqueue"
	"github.com/fanoutd/fanoutd/internal/server/request"
)

// Source is what a resource is served from: a cacher and a dispatcher, or etcd
// itself.
type Source interface {
	// View returns the resource as the consistency asks for it.
	View(ctx context.Context, c request.Consistency) (View, error)

	// ViewAt returns the resource at a position that was given out before.
	ViewAt(ctx context.Context, p object.Position) (View, error)

	// Watch registers a watcher when the source is fresh enough for it: a
	// [*dispatch.Watcher], which delivers to the sink, or an [UncachedWatcher].
	Watch(ctx context.Context, w *request.Watch, q *sendqueue.Queue, sink dispatch.Sink) (Watcher, error)

	// Loaded reports whether reads can be served.
	Loaded() bool

	// Following reports whether the source hears of the store.
	Following() bool

	// Describe fills in what is known of the source. It asks the store how far it is
	// if it is to measure, and leaves out what cannot be found out.
	Describe(ctx context.Context, r *fanoutv1.ResourceStatus, measure bool)
}

// ProtoPosition returns a position as the protocol has it.
func ProtoPosition(p object.Position) *fanoutv1.Position {
	return &fanoutv1.Position{Epoch: string(p.Epoch), Revision: int64(p.Revision)}
}

// View is a resource at one position.
type View interface {
	Position() object.Position

	// InMemory reports whether the view is in memory, so that its objects can be
	// counted.
	InMemory() bool

	// Count returns how many objects there are of the scope with keys from start on,
	// if the view is remembered. It does not look at each of them.
	Count(scope object.Scope, start object.Key) int

	// Objects returns the objects of the scope with keys from start on. An error
	// ends them; it is [*expiredError] where the position is no longer known.
	Objects(ctx context.Context, scope object.Scope, start object.Key) iter.Seq2[*object.Object, error]
}

// Watcher is the serving end of a watch; see [dispatch.Watcher].
type Watcher interface {
	Position() object.Position
	Close()
}

// UncachedWatcher is the watcher of a resource without a cache. The handler of the watch
// waits for each message.
type UncachedWatcher interface {
	Watcher
	Next(ctx context.Context) (dispatch.Message, error)
}
