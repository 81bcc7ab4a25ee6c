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

// Registry has all watches of a server. A watch is registered before its limits are checked,
// and stays registered until its end, so a drain ends every watch. A registered watch has an
// entry. The entry becomes complete when the watch has its watcher; see markComplete.
type Registry struct {
	prefix string // first part of all ids; random, so it differs between servers and changes with a restart

	begunAndEnded atomic.Int64 // see reclaim.begunAndEnded; counts watches with complete entries
	garbage       *collect     // collects the garbage of watches that have begun or ended
	clock         DrainClock

	mu       sync.Mutex
	latest   uint64            // guarded by mu: the highest number
	entries  map[uint64]*Entry // guarded by mu
	draining bool              // guarded by mu: no watch may begin
	empty    chan struct{}     // closed when draining is set and no watch is registered
}

func newRegistry() *Registry {
	random := rand.Uint64()
	b := make([]byte, 0, 6)
	for i := range cap(b) {
		b = append(b, byte(random>>(8*i)))
	}
	r := &Registry{prefix: hex.EncodeToString(b), clock: realClock{}, entries: map[uint64]*Entry{}, empty: make(chan struct{})}
	r.garbage = newCollect(r.begunAndEnded.Load)
	return r
}

// register adds a watch, which the caller must unregister. To end the watch, the registry
// calls the given function. It may do so on any goroutine, and even after the watch was
// unregistered. If the server drains, register returns [apierr.ErrDraining], and the client
// tries again on another connection.
func (r *Registry) register(e *Entry, end func(reason error)) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.draining {
		e.goAway()
		return apierr.ErrDraining
	}
	r.latest++
	e.registry, e.number, e.end = r, r.latest, end
	r.entries[e.number] = e
	return nil
}

// markComplete records that all fields of an entry are set. Before that, only a drain uses
// the entry, and only to end the watch. Operators do not see the entry, and reexamine and
// checkFences skip it.
func (r *Registry) markComplete(e *Entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.garbage.note(r.begunAndEnded.Add(1))
	e.complete = true
}

// unregister removes a watch that has ended.
func (r *Registry) unregister(e *Entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e.complete {
		r.garbage.note(r.begunAndEnded.Add(1))
	}
	delete(r.entries, e.number)
	if r.draining && len(r.entries) == 0 {
		close(r.empty)
	}
}

// ServerID returns the part of each watch's id that names this server.
func (r *Registry) ServerID() string { return r.prefix }

// Number returns the number in the id of a watch, or false if no watch of this server can have
// that id.
func (r *Registry) Number(id string) (uint64, bool) {
	prefix, digits, ok := strings.Cut(id, "-")
	if !ok || prefix != r.prefix {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	return n, err == nil
}

// Find returns the complete entry of the watch with the id, or nil if there is none.
func (r *Registry) Find(id string) *Entry {
	n, ok := r.Number(id)
	if !ok {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.entries[n]; e != nil && e.complete {
		return e
	}
	return nil
}

// Of returns the complete entries of the watches of some resources, the oldest first.
func (r *Registry) Of(resources ...string) []*Entry {
	found := slices.DeleteFunc(r.completeEntries(), func(e *Entry) bool { return !slices.Contains(resources, e.question.Resource) })
	slices.SortFunc(found, func(x, y *Entry) int { return cmp.Compare(x.number, y.number) })
	return found
}

// CountByResource returns the number of complete entries of each resource.
func (r *Registry) CountByResource() map[string]int {
	n := map[string]int{}
	for _, e := range r.completeEntries() {
		n[e.question.Resource]++
	}
	return n
}

// completeEntries returns the complete entries, in no particular order.
func (r *Registry) completeEntries() []*Entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	found := make([]*Entry, 0, len(r.entries))
	for _, e := range r.entries {
		if e.complete {
			found = append(found, e)
		}
	}
	return found
}

// registered returns the number of registered watches, whether their entries are complete or
// not.
func (r *Registry) registered() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.entries)
}

// refuseNew refuses new watches from now on. It returns the entries of all registered watches,
// in any order.
func (r *Registry) refuseNew() []*Entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.draining {
		r.draining = true
		if len(r.entries) == 0 {
			close(r.empty)
		}
	}
	return slices.Collect(maps.Values(r.entries))
}

// endOne ends a watch with a reason, if the watch is still registered. Only drains use it.
func (r *Registry) endOne(e *Entry, reason error) {
	r.mu.Lock()
	present := r.entries[e.number] == e
	r.mu.Unlock()
	if present {
		e.end(reason)
	}
}

// reexamine calls examine for each complete entry, and ends the watch if examine returns an
// error. It returns the number of watches that it ended.
//
// The caller changes the rights or credentials before it calls reexamine. A handler marks its
// entry as complete before it examines its watch. So no watch escapes a change: either
// reexamine finds the complete entry, or the handler examines its watch after the change.
func (r *Registry) reexamine(examine func(*Entry) error) (ended int) {
	for _, e := range r.completeEntries() {
		if err := examine(e); err != nil {
			e.end(err)
			ended++
		}
	}
	return ended
}
