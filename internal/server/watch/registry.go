package watch

import (
	"cmp"
	"encoding/hex"
	"iter"
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
	counts        resourceCounts
	clock         DrainClock

	mu       sync.Mutex
	latest   uint64        // guarded by mu: the highest number
	rpcs     rpcList       // guarded by mu
	entries  int           // guarded by mu: number of RPCs that are no streams
	draining bool          // guarded by mu: no watch may begin
	empty    chan struct{} // closed when draining is set and nothing is registered
}

func newRegistry() *Registry {
	random := rand.Uint64()
	b := make([]byte, 0, 6)
	for i := range cap(b) {
		b = append(b, byte(random>>(8*i)))
	}
	r := &Registry{
		prefix: hex.EncodeToString(b), tokens: newTokens(), clock: realClock{},
		counts: newResourceCounts(), empty: make(chan struct{}),
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
	r.rpcs.add(registeredRPC{number: e.number, entry: e})
	r.entries++
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
	r.counts.add(e.Resource())
}

// noteReport counts an entry as failing, or no longer, after a report. If the watch has ended
// meanwhile, it does nothing.
func (r *Registry) noteReport(e *Entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.rpcs.find(e.number).entry != e {
		return
	}
	if failing := e.Reported().Failed(); failing != e.failing {
		e.failing = failing
		r.counts.noteReport(e.Resource(), failing)
	}
}

// unregister removes a watch that has ended.
func (r *Registry) unregister(e *Entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e.complete {
		r.garbage.note(r.begunAndEnded.Add(1))
		r.counts.remove(e.Resource(), e.failing)
	}
	r.rpcs.remove(e.number)
	r.entries--
	r.checkEmpty()
}

// checkEmpty is called with mu held when something was unregistered.
func (r *Registry) checkEmpty() {
	if r.draining && r.rpcs.len() == 0 {
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
	if n, ok := r.Number(id); ok {
		return r.At(n)
	}
	return nil
}

// At returns the watch with the number, or nil if there is none, or if its entry is not complete.
func (r *Registry) At(n Number) Watch {
	if n.Index > 0 {
		r.mu.Lock()
		stream := r.rpcs.find(n.RPC).stream
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
	if e := r.rpcs.find(n).entry; e != nil && e.complete {
		return e
	}
	return nil
}

// After returns the watches of some resources with higher numbers than the given one, in the
// order of their numbers. It leaves out incomplete entries. Watches with lower numbers cost nothing.
func (r *Registry) After(n Number, resources ...string) iter.Seq[Watch] {
	return func(yield func(Watch) bool) {
		for rpc := range r.from(n.RPC) {
			switch {
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

// fewRPCs is the number of RPCs that from copies at a time.
const fewRPCs = 256

// from returns the complete entries and the streams with the number and higher ones, in the order of
// their numbers. It copies only a few at a time and does not hold the lock meanwhile, so RPCs begin and
// end.
func (r *Registry) from(number uint64) iter.Seq[registeredRPC] {
	return func(yield func(registeredRPC) bool) {
		few := make([]registeredRPC, 0, fewRPCs)
		for {
			few = r.appendFrom(few[:0], number)
			for _, rpc := range few {
				if !yield(rpc) {
					return
				}
			}
			if len(few) < cap(few) {
				return
			}
			number = few[len(few)-1].number + 1
		}
	}
}

// appendFrom appends RPCs with the number and higher ones until the slice is full.
func (r *Registry) appendFrom(few []registeredRPC, number uint64) []registeredRPC {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, rpc := range r.rpcs.all[r.rpcs.search(number):] {
		if len(few) == cap(few) {
			break
		}
		if rpc.stream != nil || rpc.entry != nil && rpc.entry.complete {
			few = append(few, rpc)
		}
	}
	return few
}

// openStreams returns the streams.
func (r *Registry) openStreams() iter.Seq[Stream] {
	return func(yield func(Stream) bool) {
		for rpc := range r.from(0) {
			if rpc.stream != nil && !yield(rpc.stream) {
				return
			}
		}
	}
}

// each calls a function for each complete entry, without the lock.
func (r *Registry) each(do func(*Entry)) {
	for rpc := range r.from(0) {
		if rpc.entry != nil {
			do(rpc.entry)
		}
	}
}

// eachWatch is like each, and calls the function for the watches of streams, too.
func (r *Registry) eachWatch(do func(Watch)) {
	for rpc := range r.from(0) {
		if rpc.entry != nil {
			do(rpc.entry)
			continue
		}
		for w := range rpc.stream.After(0) {
			do(w)
		}
	}
}

// registered returns the number of registered watches, whether their entries are complete or
// not.
func (r *Registry) registered() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.entries + int(r.streamWatches.Load())
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
	all := make([]drained, 0, r.rpcs.len())
	for _, rpc := range r.rpcs.all {
		if e := rpc.entry; e != nil {
			all = append(all, drained{number: rpc.number, conn: e.conn, watches: 1, end: e.end})
		} else if s := rpc.stream; s != nil {
			all = append(all, drained{number: rpc.number, conn: s.Conn(), watches: max(s.Len(), 1), end: s.EndAll})
		}
	}
	return all
}

// endOne ends an RPC with a reason, if it is still registered. Only drains use it.
func (r *Registry) endOne(d drained, reason error) {
	r.mu.Lock()
	rpc := r.rpcs.find(d.number)
	r.mu.Unlock()
	if !rpc.isGone() {
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
	for rpc := range r.from(0) {
		if rpc.stream != nil {
			ended += rpc.stream.Reexamine()
		} else if err := examine(rpc.entry); err != nil {
			rpc.entry.end(err)
			ended++
		}
	}
	return ended
}
