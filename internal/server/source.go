package server

import (
	"context"
	"iter"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/object"
)

// source is what a resource is served from: a cacher and a dispatcher, or etcd
// itself.
type source interface {
	// view returns the resource as the consistency asks for it.
	view(ctx context.Context, c consistency) (view, error)

	// viewAt returns the resource at a position that was given out before.
	viewAt(ctx context.Context, p object.Position) (view, error)

	// watch registers a watcher when the source is fresh enough for it.
	watch(ctx context.Context, w *watch) (watcher, error)

	// loaded reports whether reads can be served.
	loaded() bool

	// following reports whether the source hears of the store.
	following() bool

	// describe fills in what is known of the source. It asks the store how far it is
	// if it is to measure, and leaves out what cannot be found out.
	describe(ctx context.Context, r *fanoutv1.ResourceStatus, measure bool)
}

// view is a resource at one position.
type view interface {
	position() object.Position

	// remembered reports whether the view is in memory, so that its objects can be
	// counted.
	remembered() bool

	// count returns how many objects there are of the scope with keys from start on,
	// if the view is remembered. It does not look at each of them.
	count(scope object.Scope, start object.Key) int

	// objects returns the objects of the scope with keys from start on. An error
	// ends them; it is [*expiredError] where the position is no longer known.
	objects(ctx context.Context, scope object.Scope, start object.Key) iter.Seq2[*object.Object, error]
}

// watcher is the serving end of a watch; see [dispatch.Watcher].
type watcher interface {
	Next(ctx context.Context) (dispatch.Message, error)
	Position() object.Position
	Close()
}
