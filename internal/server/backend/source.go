package backend

import (
	"context"
	"iter"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/object"
)

// Source serves a resource: from a cacher and a dispatcher, or from etcd itself.
type Source interface {
	// View waits until the resource is as fresh as the consistency requires, and returns it.
	View(ctx context.Context, c object.Consistency) (View, error)

	// ViewAt returns the resource at a position that a client got earlier.
	ViewAt(ctx context.Context, p object.Position) (View, error)

	// Loaded reports whether reads can be served.
	Loaded() bool

	// Following reports whether the source receives the changes of the store.
	Following() bool

	// Describe fills in the status of the source. If measure is set it asks the store for its
	// revision, to measure the lag. It leaves out what it cannot find out.
	Describe(ctx context.Context, r *fanoutv1.ResourceStatus, measure bool)
}

// ProtoPosition returns a position as a message of the protocol.
func ProtoPosition(p object.Position) *fanoutv1.Position {
	return &fanoutv1.Position{Epoch: string(p.Epoch), Revision: int64(p.Revision)}
}

// objectOf returns the object with the key in a view, or nil.
func objectOf(ctx context.Context, v View, key object.Key) (*object.Object, error) {
	for o, err := range v.Objects(ctx, object.ExactKey(key), "") {
		return o, err
	}
	return nil, nil
}

// View is a resource at one position.
type View interface {
	Position() object.Position

	// CountsCheaply reports whether Count can count the objects without reading them.
	CountsCheaply() bool

	// Count returns the number of objects of the scope with keys from start on. It may be
	// called only if CountsCheaply is true.
	Count(ctx context.Context, scope object.Scope, start object.Key) (int, error)

	// Object returns the object with the key, or nil. Its errors are those of Objects.
	Object(ctx context.Context, key object.Key) (*object.Object, error)

	// Objects returns the objects in the scope with keys from start on. An error ends the
	// sequence. It is an [apierr.ExpiredError] if the position is too old.
	Objects(ctx context.Context, scope object.Scope, start object.Key) iter.Seq2[*object.Object, error]
}
