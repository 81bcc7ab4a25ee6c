package server

import (
	"context"

	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/direct"
	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/apierr"
)

// Writer applies writes. The store implements it.
type Writer interface {
	// Commit applies the operations at one revision, or none of them.
	Commit(ctx context.Context, ops []object.Op) (object.Commit, error)
}

// Rewriter stores values anew. The store implements it.
type Rewriter interface {
	// Rewrite reads at most limit records with keys from start on, and stores those anew,
	// with at most batch of them in a transaction, that are not stored as they would be
	// today.
	Rewrite(ctx context.Context, start object.Key, limit, batch int) (object.RewriteResult, error)
}

// Values says how values are stored. A keyring's do.
type Values interface {
	// Encrypts reports whether they are encrypted when they are written.
	Encrypts() bool

	// Primary returns the id of the key that they are encrypted with; 0: with none.
	Primary() uint32
}

// Resource is what the server serves under one name: from memory, where it has a
// cacher and a dispatcher, or straight from etcd.
type Resource struct {
	Name       string
	Fields     []string // that the configuration declares, for field selectors
	Codec      object.Codec
	Cacher     *cacher.Cacher       // nil: see Direct
	Dispatcher *dispatch.Dispatcher // of the cacher
	Direct     *direct.Source       // nil: see Cacher
	Writer     Writer
	Rewriter   Rewriter
	Values     Values
	Trail      Trail // nil: nobody follows writes

	tallies []tally // what its watches were sent, by worker
}

// source returns what the resource is served from.
func (r *Resource) source() source {
	if r.Direct != nil {
		return uncached{r.Direct}
	}
	return cached{r.Cacher, r.Dispatcher}
}

// scans reports whether an interest costs something with changes that it does not pick.
// Without a cache each watch looks at each change, whatever its selector is.
func (r *Resource) scans(i *dispatch.Interest) bool {
	return r.Dispatcher != nil && !r.Dispatcher.Decides(i)
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
	return nil, apierr.UnknownResourceError(name)
}
