package watch

import (
	"cmp"
	"encoding/hex"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/fanoutd/fanoutd/internal/server/apierr"
)

// Registry has all watches of a server: those of the method Watch, and those of Subscribe
// streams. A watch is registered before its limits are checked, and stays registered until its
// end, so a drain ends every watch. A watch of the method Watch has an entry. The entry becomes
// complete when the watch has its watcher; see markComplete. The watches of a Subscribe stream
// are registered with their stream; see [Stream].
type Registry struct {
	prefix string // first part of all ids; random, so it differs between servers and changes with a restart
	tokens tokens // of the watches

	begunAndEnded atomic.Int64 // see reclaim.begunAndEnded; counts watches of streams, and those with complete entries
	streamWatches atomic.Int64 // number of watches of streams
	garbage       *collect     // collects the garbage of watches that have begun or ended
	clock         DrainClock

	mu       sync.Mutex
	latest   uint64            // guarded by mu: the highest number
	entries  map[uint64]*Entry // guarded by mu
	streams  map[uint64]Stream // guarded by mu
	draining bool              // guarded by mu: no watch may begin
	empty    chan struct{}     // closed when draining is set and nothing is registered
}

func newRegistry() *Registry {
	random := rand.Uint64()
	b := make([]byte, 0, 6)
	for i := range cap(b) {
		b = append(b, byte(random>>(8*i)))
	}
	r := &Registry{
		prefix: hex.EncodeToString(b), tokens: newTokens(), clock: realClock{},
		entries: map[uint64]*Entry{}, streams: map[uint64]Stream{}, empty: make(chan struct{}),
	}
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
		if e.conn != nil {
			e.conn.GoAway()
		}
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
	r.checkEmpty()
}

// checkEmpty is called with mu held when something was unregistered.
func (r *Registry) checkEmpty() {
	if r.draining && len(r.entries)+len(r.streams) == 0 {
		close(r.empty)
	}
}

// ServerID returns the part of each watch's id that names this server.
func (r *Registry) ServerID() string { return r.prefix }

// Number identifies a watch of a server. Later RPCs have higher numbers, and so have later
// watches of a Subscribe stream.
type Number struct {
	RPC   uint64
	Index uint32 // of a watch of a Subscribe stream, from 1 on; 0: the RPC is a Watch
}

// Compare orders numbers.
func (n Number) Compare(m Number) int {
	return cmp.Or(cmp.Compare(n.RPC, m.RPC), cmp.Compare(n.Index, m.Index))
}

// ID returns the id of the watch with a number, as operators see it.
func (r *Registry) ID(n Number) string {
	id := r.prefix + "-" + strconv.FormatUint(n.RPC, 10)
	if n.Index > 0 {
		id += "." + strconv.FormatUint(uint64(n.Index), 10)
	}
	return id
}

// Number returns the number in the id of a watch, or false if no watch of this server can have
// that id.
func (r *Registry) Number(id string) (n Number, ok bool) {
	prefix, digits, ok := strings.Cut(id, "-")
	if !ok || prefix != r.prefix {
		return Number{}, false
	}
	digits, index, ofStream := strings.Cut(digits, ".")
	var err error
	if n.RPC, err = strconv.ParseUint(digits, 10, 64); err != nil {
		return Number{}, false
	}
	if ofStream {
		i, err := strconv.ParseUint(index, 10, 32)
		if err != nil || i == 0 {
			return Number{}, false
		}
		n.Index = uint32(i)
	}
	return n, true
}

// Find returns the watch with the id, or nil if there is none, or if its entry is not complete.
func (r *Registry) Find(id string) Watch {
	n, ok := r.Number(id)
	switch {
	case !ok:
		return nil
	case n.Index > 0:
		r.mu.Lock()
		stream := r.streams[n.RPC]
		r.mu.Unlock()
		if stream == nil {
			return nil
		}
		return stream.Find(n.Index)
	}
	if e := r.entry(n.RPC); e != nil {
		return e
	}
	return nil // not a nil *Entry
}

// FindByToken returns the complete entry of the watch with the token, or nil if there is none.
func (r *Registry) FindByToken(token string) *Entry {
	if n, ok := r.tokens.number(token); ok {
		return r.entry(n)
	}
	return nil
}

// entry returns the complete entry of the watch with the number, or nil if there is none.
func (r *Registry) entry(n uint64) *Entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.entries[n]; e != nil && e.complete {
		return e
	}
	return nil
}

// After returns the watches of some resources with higher numbers than the given one, in the
// order of their numbers. It leaves out incomplete entries.
func (r *Registry) After(n Number, resources ...string) iter.Seq[Watch] {
	return func(yield func(Watch) bool) {
		for _, rpc := range r.rpcs() {
			switch {
			case rpc.number < n.RPC:
			case rpc.stream != nil:
				after := uint32(0)
				if rpc.number == n.RPC {
					after = n.Index
				}
				for w := range rpc.stream.After(after) {
					if slices.Contains(resources, w.Resource()) && !yield(w) {
						return
					}
				}
			case rpc.number > n.RPC && slices.Contains(resources, rpc.entry.Resource()) && !yield(rpc.entry):
				return
			}
		}
	}
}

// registeredRPC is an RPC in the registry.
type registeredRPC struct {
	number uint64
	entry  *Entry // complete; nil: the RPC is a stream
	stream Stream
}

// rpcs returns the complete entries and the streams, the oldest first.
func (r *Registry) rpcs() []registeredRPC {
	r.mu.Lock()
	all := make([]registeredRPC, 0, len(r.entries)+len(r.streams))
	for n, e := range r.entries {
		if e.complete {
			all = append(all, registeredRPC{number: n, entry: e})
		}
	}
	for n, s := range r.streams {
		all = append(all, registeredRPC{number: n, stream: s})
	}
	r.mu.Unlock()
	slices.SortFunc(all, func(x, y registeredRPC) int { return cmp.Compare(x.number, y.number) })
	return all
}

// CountByResource returns the number of watches of each resource. It leaves out incomplete
// entries.
func (r *Registry) CountByResource() map[string]int {
	n := map[string]int{}
	r.each(func(e *Entry) { n[e.Resource()]++ })
	for _, s := range r.openStreams() {
		s.CountByResource(n)
	}
	return n
}

// CountFailing returns the number of watches of some resources whose last report has an error.
func (r *Registry) CountFailing(resources ...string) (n int64) {
	r.eachWatch(func(w Watch) {
		if w.Reported().Failed() && slices.Contains(resources, w.Resource()) {
			n++
		}
	})
	return n
}

// openStreams returns the streams, in no particular order.
func (r *Registry) openStreams() []Stream {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Values(r.streams))
}

// fewEntries is the number of entries that each gets at a time.
const fewEntries = 256

// each calls a function for each complete entry, in no particular order. It copies only a few
// entries at a time and does not hold the lock during the calls, so watches begin and end
// meanwhile. The function gets each entry that is there all the time, exactly once.
func (r *Registry) each(do func(*Entry)) {
	few := make([]*Entry, 0, fewEntries)
	flush := func() {
		for _, e := range few {
			do(e)
		}
		few = few[:0]
	}
	r.mu.Lock()
	for _, e := range r.entries {
		if e.complete {
			few = append(few, e)
		}
		if len(few) == cap(few) {
			// A map may change between two steps of a range loop. The lock guards the steps.
			r.mu.Unlock()
			flush()
			r.mu.Lock()
		}
	}
	r.mu.Unlock()
	flush()
}

// eachWatch is like each, and calls the function for the watches of streams, too.
func (r *Registry) eachWatch(do func(Watch)) {
	r.each(func(e *Entry) { do(e) })
	for _, s := range r.openStreams() {
		for w := range s.After(0) {
			do(w)
		}
	}
}

// registered returns the number of registered watches, whether their entries are complete or
// not.
func (r *Registry) registered() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.entries) + int(r.streamWatches.Load())
}

// refuseNew refuses new watches from now on. It returns all RPCs that are registered, in any
// order.
func (r *Registry) refuseNew() []drained {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.draining {
		r.draining = true
		r.checkEmpty()
	}
	all := make([]drained, 0, len(r.entries)+len(r.streams))
	for n, e := range r.entries {
		all = append(all, drained{number: n, conn: e.conn, watches: 1, end: e.end})
	}
	for n, s := range r.streams {
		all = append(all, drained{number: n, conn: s.Conn(), watches: max(s.Len(), 1), end: s.EndAll})
	}
	return all
}

// endOne ends an RPC with a reason, if it is still registered. Only drains use it.
func (r *Registry) endOne(d drained, reason error) {
	r.mu.Lock()
	present := r.entries[d.number] != nil || r.streams[d.number] != nil
	r.mu.Unlock()
	if present {
		d.end(reason)
	}
}

// reexamine calls examine for each watch, and ends the watch if examine returns an error. It
// returns the number of watches that it ended.
//
// The caller changes the rights or credentials before it calls reexamine. A handler marks its
// entry as complete before it examines its watch. So no watch escapes a change: either
// reexamine finds the complete entry, or the handler examines its watch after the change.
func (r *Registry) reexamine(examine func(*Entry) error) (ended int) {
	for _, rpc := range r.rpcs() {
		if rpc.stream != nil {
			ended += rpc.stream.Reexamine()
		} else if err := examine(rpc.entry); err != nil {
			rpc.entry.end(err)
			ended++
		}
	}
	return ended
}
