package backend

import (
	"context"
	"time"

	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/direct"
	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/apierr"
	"github.com/fanoutd/fanoutd/internal/server/request"
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

// Leases says how long leases last. The store implements it.
type Leases interface {
	// RemainingTTL returns the time until the lease removes its objects, in whole seconds;
	// 0 if it has expired.
	RemainingTTL(ctx context.Context, lease int64) (time.Duration, error)
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
	Leases     Leases
	Values     Values
	Tracer     WriteTracer // nil: nobody follows writes
}

// Source returns what the resource is served from.
func (r *Resource) Source() Source {
	if r.Direct != nil {
		return uncached{r.Direct}
	}
	return cached{r.Cacher, r.Dispatcher}
}

// Backlog returns what waits for a watcher of a cached resource that is at the position,
// and for how long that has been so.
func (r *Resource) Backlog(w *dispatch.Watcher, at object.Position) (b dispatch.Backlog, lag int64, since time.Duration) {
	return cached{r.Cacher, r.Dispatcher}.backlog(w, at)
}

// Scans reports whether an interest costs something with changes that it does not pick.
// Without a cache each watch looks at each change, whatever its selector is.
func (r *Resource) Scans(i *dispatch.Interest) bool {
	return r.Dispatcher != nil && !r.Dispatcher.Decides(i)
}

// Resources are the configured resources by name.
type Resources map[string]*Resource

func (r Resources) Find(name string) (*Resource, error) {
	if found, ok := r[name]; ok {
		return found, nil
	}
	if name == "" {
		var c request.Checker
		c.Refuse("resource", "must not be empty")
		return nil, c.Err()
	}
	return nil, apierr.UnknownResourceError(name)
}
