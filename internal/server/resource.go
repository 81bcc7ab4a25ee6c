package server

import (
	"context"
	"errors"
	"iter"

	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/object"
)

// Writer applies writes. The store implements it.
type Writer interface {
	// Commit applies the operations at one revision, or none of them.
	Commit(ctx context.Context, ops []object.Op) (object.Commit, error)
}

// Resource is what the server serves under one name.
type Resource struct {
	Name       string
	Fields     []string // that the configuration declares, for field selectors
	Codec      object.Codec
	Cacher     *cacher.Cacher
	Dispatcher *dispatch.Dispatcher
	Writer     Writer
}

// reach returns a state at the position or ahead of it: a replica that is behind
// the one where the position comes from catches up with it first. Where the
// position is of another epoch its revision means nothing, and any state will do.
func (r *Resource) reach(ctx context.Context, p object.Position) (*cacher.State, error) {
	// Whatever is loaded will do to compare the epoch with; the first load is
	// worth waiting for.
	state, err := r.Cacher.Read(ctx, cacher.AtLeast(0))
	if err != nil || state.Position().Epoch != p.Epoch {
		return state, err
	}
	return r.Cacher.Read(ctx, cacher.AtLeast(p.Revision))
}

// view is a resource at one position.
type view struct {
	at       object.Position
	resource *Resource
	state    *cacher.State // in which to look first
}

// view returns the resource as the consistency asks for it.
func (r *Resource) view(ctx context.Context, c consistency) (view, error) {
	if c.exact == 0 {
		state, err := r.Cacher.Read(ctx, c.Consistency)
		if err != nil {
			return view{}, err
		}
		return view{state.Position(), r, state}, nil
	}
	state, err := r.Cacher.Read(ctx, cacher.AtLeast(c.exact))
	if err != nil {
		return view{}, err
	}
	return view{object.Position{Epoch: state.Position().Epoch, Revision: c.exact}, r, state}, nil
}

// remembered reports whether the view is in memory.
func (v view) remembered() bool {
	return v.at.Epoch == v.state.Position().Epoch && v.at.Revision >= v.state.Replayable()
}

// objects returns the objects of the scope from a key on, from memory or else from
// the store's history. An error ends them; it is [*expiredError] where the
// position is behind both.
func (v view) objects(ctx context.Context, scope object.Scope, start object.Key) iter.Seq2[*object.Object, error] {
	return func(yield func(*object.Object, error) bool) {
		if v.at.Epoch != v.state.Position().Epoch {
			yield(nil, &expiredError{asked: v.at, oldest: v.state.Replayable()})
			return
		}
		if objects, ok := v.state.ObjectsAt(v.at.Revision, scope, start); ok {
			for o := range objects {
				if !yield(o, nil) {
					return
				}
			}
			return
		}
		for o, err := range v.resource.Cacher.History(ctx, v.at.Revision, scope, start) {
			if errors.Is(err, object.ErrCompacted) {
				err = &expiredError{asked: v.at, oldest: v.state.Replayable()}
			}
			if !yield(o, err) {
				return
			}
		}
	}
}

// resources are the configured resources by name.
type resources map[string]*Resource

func (r resources) find(name string) (*Resource, error) {
	if found, ok := r[name]; ok {
		return found, nil
	}
	if name == "" {
		var c checker
		c.refuse("resource", "must not be empty")
		return nil, c.err()
	}
	return nil, unknownResourceError(name)
}
