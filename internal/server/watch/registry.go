package watch

import (
	"cmp"
	"encoding/hex"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/fanoutd/fanoutd/internal/server/apierr"
)

// Registry has all watches of a server. A watch is in it from before its limits are checked
// until its end, so draining ends every watch. Operators see a watch when its entry is
// complete (shown).
type Registry struct {
	prefix string // of the ids; random, so it differs between servers and changes with a restart

	begunAndEnded atomic.Int64 // number of watches that have begun plus number of those that have ended
	clock         DrainClock

	mu       sync.Mutex
	latest   uint64            // guarded by mu: the highest number
	entries  map[uint64]*Entry // guarded by mu
	draining bool              // guarded by mu: no watch may begin
	empty    chan struct{}     // closed when it drains and there is no watch
}

func newRegistry() *Registry {
	random := rand.Uint64()
	b := make([]byte, 0, 6)
	for i := range cap(b) {
		b = append(b, byte(random>>(8*i)))
	}
	return &Registry{prefix: hex.EncodeToString(b), clock: realClock{}, entries: map[uint64]*Entry{}, empty: make(chan struct{})}
}

// add adds a watch, which must be removed. The end function ends it, and may be called
// until then. add returns [apierr.ErrDraining] if the server drains.
func (r *Registry) add(e *Entry, end func(reason error)) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.draining {
		return apierr.ErrDraining
	}
	r.latest++
	e.registry, e.number, e.end = r, r.latest, end
	r.entries[e.number] = e
	return nil
}

// show shows a watch to operators. Its entry must be complete.
func (r *Registry) show(e *Entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.begunAndEnded.Add(1)
	e.shown = true
}

func (r *Registry) remove(e *Entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e.shown {
		r.begunAndEnded.Add(1)
	}
	delete(r.entries, e.number)
	if r.draining && len(r.entries) == 0 {
		close(r.empty)
	}
}

// ServerID returns the part of the ids that names this server.
func (r *Registry) ServerID() string { return r.prefix }

// Number returns the number of the watch with the id, or false if no watch of this server
// can have it.
func (r *Registry) Number(id string) (uint64, bool) {
	prefix, digits, ok := strings.Cut(id, "-")
	if !ok || prefix != r.prefix {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	return n, err == nil
}

// Find returns the watch with the id, or nil.
func (r *Registry) Find(id string) *Entry {
	n, ok := r.Number(id)
	if !ok {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.entries[n]; e != nil && e.shown {
		return e
	}
	return nil
}

// Of returns the watches of some resources, the oldest first.
func (r *Registry) Of(resources ...string) []*Entry {
	found := slices.DeleteFunc(r.all(), func(e *Entry) bool { return !slices.Contains(resources, e.question.Resource) })
	slices.SortFunc(found, func(x, y *Entry) int { return cmp.Compare(x.number, y.number) })
	return found
}

// Count returns the number of watches by resource.
func (r *Registry) Count() map[string]int {
	n := map[string]int{}
	for _, e := range r.all() {
		n[e.question.Resource]++
	}
	return n
}

// all returns all watches that are shown.
func (r *Registry) all() []*Entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	found := make([]*Entry, 0, len(r.entries))
	for _, e := range r.entries {
		if e.shown {
			found = append(found, e)
		}
	}
	return found
}

// len returns the number of watches.
func (r *Registry) len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.entries)
}

// refuseNew refuses new watches from now on. It returns the present ones, the oldest first.
func (r *Registry) refuseNew() []*Entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.draining {
		r.draining = true
		if len(r.entries) == 0 {
			close(r.empty)
		}
	}
	return slices.SortedFunc(maps.Values(r.entries), func(x, y *Entry) int { return cmp.Compare(x.number, y.number) })
}

// endOne ends a watch that is still there.
func (r *Registry) endOne(e *Entry) {
	r.mu.Lock()
	present := r.entries[e.number] == e
	r.mu.Unlock()
	if present {
		e.end(apierr.ErrDraining)
	}
}

// reexamine calls examine for each watch and ends the watch if there is an error. It returns
// the number of watches that it ended. It may miss a watch that begins meanwhile, so a handler
// examines its watch once more after it has registered it. The caller changes the rights or
// credentials before it calls reexamine.
func (r *Registry) reexamine(examine func(*Entry) error) (ended int) {
	for _, e := range r.all() {
		if err := examine(e); err != nil {
			e.end(err)
			ended++
		}
	}
	return ended
}
