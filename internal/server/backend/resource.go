package backend

import (
	"context"
	"time"

	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/direct"
	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/history"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/apierr"
	"github.com/fanoutd/fanoutd/internal/validation"
)

// Store is what handlers and metrics need of the store of a resource, besides its source.
type Store interface {
	// Commit applies the operations at one revision, or none of them.
	Commit(ctx context.Context, ops []object.Op) (object.Commit, error)

	// List returns at most limit records of the scope as of a revision, with keys from start on.
	List(ctx context.Context, at object.Revision, scope object.Scope, start object.Key, limit int) (records []object.Record, more bool, err error)

	// Rewrite reads at most limit records with keys from start on. It stores those again that
	// a write would store differently today, for example with another key, at most batch of them
	// in a transaction.
	Rewrite(ctx context.Context, start object.Key, limit, batch int) (object.RewriteResult, error)

	// RemainingTTL returns the time until the lease removes its objects, in whole seconds;
	// 0 if it has expired.
	RemainingTTL(ctx context.Context, lease int64) (time.Duration, error)

	// OmittedKeys returns the number of keys that the store leaves out because they are empty or
	// not valid UTF-8.
	OmittedKeys() int
}

// Values reports how values are encrypted. A keyring implements it.
type Values interface {
	// Encrypts reports whether written values are encrypted.
	Encrypts() bool

	// Primary returns the id of the key that encrypts written values; 0: none.
	Primary() uint32
}

// Resource is a resource of the configuration. It has either a cacher and a dispatcher, or a
// direct source.
type Resource struct {
	Name       string
	Fields     []string // declared by the configuration, for field selectors
	Codec      object.Codec
	Cacher     *cacher.Cacher       // nil: see Direct
	Dispatcher *dispatch.Dispatcher // of the cacher
	Direct     *direct.Source       // nil: see Cacher
	Store      Store
	Values     Values
	Tracer     WriteTracer      // nil: writes are not traced
	History    *History         // nil: the resource has no history
	Validation *validation.Live // nil: writes are not checked
}

// Lag is how far a watch is behind its resource.
type Lag struct {
	Revisions int64         // between its position and that of the resource
	Waited    time.Duration // how long the oldest event that waits for the watch has waited
	IsMinimum bool          // the oldest event has waited at least this long: it is older than the window
}

// DispatchLag returns how long the oldest change has waited for the dispatcher: it is in the cache
// but not in the logs of the feeds. It returns 0 if no change waits.
func (r *Resource) DispatchLag() time.Duration {
	if r.Direct != nil {
		return 0
	}
	done, state := r.Dispatcher.Stats().DispatchedUpTo, r.Cacher.State()
	if state == nil || done.Epoch != state.Position().Epoch {
		return 0
	}
	arrived, ok := state.Arrived(done.Revision)
	if !ok {
		return 0
	}
	return time.Since(arrived)
}

// Source returns the source that serves the resource.
func (r *Resource) Source() Source {
	if r.Direct != nil {
		return uncached{r.Direct}
	}
	return cached{r}
}

// LagOf returns how far a watch of a cached resource is behind. The position is that of its
// latest message, and the backlog has the events that wait for it.
func (r *Resource) LagOf(b feed.Backlog, at object.Position) Lag {
	state := r.Cacher.State()
	if b.Events == 0 || state == nil {
		return Lag{}
	}
	if state.Position().Epoch != at.Epoch {
		return Lag{IsMinimum: true} // the window has no event of the watch's epoch
	}
	lag := Lag{Revisions: int64(max(0, state.Revision()-at.Revision)), IsMinimum: b.Since < state.Replayable()}
	if arrived, ok := state.Arrived(b.Since); ok {
		lag.Waited = time.Since(arrived)
	}
	return lag
}

// Position returns the position up to which the server has all changes of the resource, or the zero
// position if it is not known without asking the store.
func (r *Resource) Position() object.Position {
	if r.Cacher == nil {
		return object.Position{}
	}
	if state := r.Cacher.State(); state != nil {
		return state.Position()
	}
	return object.Position{}
}

// Scans reports whether the selector of an interest has to be evaluated for each change. It
// is false for a resource without a cache, where each watch evaluates each change anyway.
func (r *Resource) Scans(i *feed.Interest) bool {
	return r.Dispatcher != nil && !r.Dispatcher.IndexDecides(i)
}

// Resources has the configured resources by name.
type Resources map[string]*Resource

// Find returns the resource with the name.
func (r Resources) Find(name string) (*Resource, error) {
	if found, ok := r[name]; ok {
		return found, nil
	}
	if name == "" {
		return nil, apierr.InvalidError{{Field: "resource", Description: "must not be empty"}}
	}
	return nil, apierr.UnknownResourceError(name)
}

// History is the history of a resource.
type History struct {
	Recorder *history.Recorder
	Reader   *history.Reader
	Pruner   *history.Pruner

	// Rewrite is the method of Store for the records of the history.
	Rewrite func(ctx context.Context, start object.Key, limit, batch int) (object.RewriteResult, error)
}
