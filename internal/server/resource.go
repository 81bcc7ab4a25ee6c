package server

import (
	"context"

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
