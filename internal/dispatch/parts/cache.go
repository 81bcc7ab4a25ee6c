package parts

import (
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/object"
)

// CacheAge is the age from which a shared state is outdated, unless it is still the
// newest state. A watch that begins to catch up uses a shared state that is not outdated,
// if this state is as fresh as the watch requires; see package catchup. CacheAge is
// also the shortest time between two sweeps.
const CacheAge = 100 * time.Millisecond

// Cache shares the work of catch-ups among the watches of one interest. Watches that
// catch up at the same time catch up to the same state, and use the parts that one of them
// made. A sweep empties the cache when this state is older than CacheAge and no longer
// the newest.
type Cache struct {
	mu    sync.Mutex    // guards everything below; held while a part is made, so each part is made once
	state *cacher.State // the state to which the watches catch up; nil: none
	taken time.Time     // when the state was taken
	used  time.Time     // when a watch last asked for the state or for a part
	parts map[Key]Part  // the kept parts; nil before start is called
	bytes int64         // size of the parts
}

// Budget limits the memory of all caches of a resource. A cache may use at most half of
// what the other caches leave. A part that does not fit is made again for each watch.
type Budget struct {
	Limit int64
	Bytes atomic.Int64
}

// isTight reports whether more than a quarter of the budget is used. If so, a sweep also
// empties each cache that no watch has used for CacheAge.
func (b *Budget) isTight() bool { return b.Bytes.Load() > b.Limit/4 }

// Key identifies a part. A part that is made from the window has the kind REPLAY, even
// for a live watch, whose reader takes the window if the log does not reach back to its position.
type Key struct {
	Kind  object.CatchUpKind
	Since object.Revision // DELTA: where it begins
	To    object.Revision // the revision to which the catch-up leads; REPLAY: of a merge, up to which it merges
	Start Start
}

// Start is where a part begins.
type Start struct {
	// A part of a RESET begins at the field Key. A part of a DELTA begins after the change with
	// this ChangeID. A part of a REPLAY begins after the revision in the field At.
	cacher.ChangeID

	Skip  int          // REPLAY: number of events after the revision At that the part leaves out
	Epoch object.Epoch // REPLAY: the epoch of the revision
}

// Part has the events of one message. For a RESET or a DELTA, they were made from a state. For a REPLAY
// or a live message, they come from the log, or were made from the window.
type Part struct {
	Pieces [][]byte
	End    Cut

	// RESET and DELTA use the two fields below. A merge uses only IsLast.

	Next   Start // where the next part begins
	IsLast bool  // there is no next part

	// Parts of a REPLAY or a live message use the two fields below.

	CompleteUpTo object.Revision // the part has all events up to this revision; 0: there may be further events
	Arrived      time.Time       // when the first of the changes came from the store

	Lost      bool // neither the window nor a state has the events any more
	coalesced bool // see coalesce
}

// size returns the number of bytes that the part takes of the budget. Pieces that share the
// memory of objects count, too.
func (p *Part) size() int64 { return p.sizeWith(len(p.Pieces)) }

// sizeWith returns the size that the part would have with n pieces.
func (p *Part) sizeWith(n int) int64 {
	const header = 32 // bytes of a piece besides its content
	return int64(header*(n+4) + p.End.Bytes)
}

// smallPiece is the largest size of a piece that is coalesced with its neighbours in a shared
// part. Each piece of a message in flight costs more than a hundred bytes per watch. A copy
// costs the size of the piece, once for all watches.
const smallPiece = 4 << 10

// runs returns the pieces in runs. A run is one large piece, or small pieces that follow each
// other.
func (p *Part) runs() iter.Seq[[][]byte] {
	return func(yield func([][]byte) bool) {
		for pieces := p.Pieces; len(pieces) > 0; {
			n := 0
			for n < len(pieces) && len(pieces[n]) <= smallPiece {
				n++
			}
			n = max(n, 1)
			if !yield(pieces[:n]) {
				return
			}
			pieces = pieces[n:]
		}
	}
}

// coalesce copies each run of small pieces into one piece.
func (p *Part) coalesce() {
	var fewer [][]byte
	for run := range p.runs() {
		if len(run) == 1 {
			fewer = append(fewer, run[0])
		} else {
			fewer = append(fewer, slices.Concat(run...))
		}
	}
	p.Pieces, p.coalesced = fewer, true
}

// coalescedSize returns the size that the part would have after a call of the method
// coalesce.
func (p *Part) coalescedSize() int64 {
	n := 0
	for range p.runs() {
		n++
	}
	return p.sizeWith(n)
}

// SharedState returns the state to which other watches of the interest catch up. If there is
// none, or if that state is outdated or older than the revision needed, SharedState returns
// the newest state.
func (c *Cache) SharedState(newest *cacher.State, needed object.Revision, b *Budget) *cacher.State {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state != nil && c.state.Position().Epoch == newest.Position().Epoch && c.state.Revision() >= needed && c.isYoung(newest) {
		c.used = time.Now()
		return c.state
	}
	c.emptyLocked(b)
	c.startLocked(newest)
	return newest
}

// Start makes the cache keep parts from now on. It reports whether the cache was empty
// before.
func (c *Cache) Start(newest *cacher.State) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.parts != nil {
		return false
	}
	c.startLocked(newest)
	return true
}

func (c *Cache) startLocked(s *cacher.State) {
	now := time.Now()
	c.state, c.taken, c.used, c.parts = s, now, now, map[Key]Part{}
}

func (c *Cache) isYoung(newest *cacher.State) bool {
	return c.state == newest || time.Since(c.taken) < CacheAge
}

// Part returns the Part with the key; the first caller makes the Part. For a RESET or a
// DELTA, the Part is made from the given state. For a REPLAY the state is nil, because the
// events come from the window.
func (c *Cache) Part(state *cacher.State, key Key, b *Budget, makePart func() Part) Part {
	c.mu.Lock()
	if c.parts == nil || state != nil && state != c.state {
		c.mu.Unlock()
		return makePart() // the cache is empty or has another state
	}
	defer c.mu.Unlock()
	c.used = time.Now()
	if p, ok := c.parts[key]; ok {
		if !p.coalesced { // a second watch uses the part, so the copy is worth its cost
			c.countLocked(-p.size(), b)
			p.coalesce()
			c.countLocked(p.size(), b)
			c.parts[key] = p
		}
		return p
	}
	p := makePart()
	if state == nil && len(p.Pieces) == 0 {
		return p // an empty REPLAY is not kept, because there may be events soon
	}
	if !c.hasRoomLocked(p.size(), b) && c.hasRoomLocked(p.coalescedSize(), b) {
		p.coalesce()
	}
	if n := p.size(); c.hasRoomLocked(n, b) {
		c.parts[key] = p
		c.countLocked(n, b)
	}
	return p
}

// hasRoomLocked reports whether the cache may hold n more bytes; see Budget.
func (c *Cache) hasRoomLocked(n int64, b *Budget) bool {
	return c.bytes+n <= b.Limit-b.Bytes.Load()-n
}

// countLocked counts n more bytes of the cache against the budget.
func (c *Cache) countLocked(n int64, b *Budget) {
	c.bytes += n
	b.Bytes.Add(n)
}

// Expire empties the cache if its state is outdated. If the budget is tight, it also empties
// a cache that no watch has used for CacheAge. It reports whether the cache is
// empty.
func (c *Cache) Expire(newest *cacher.State, b *Budget) bool {
	if !c.mu.TryLock() {
		return false // in use; a later sweep tries again
	}
	defer c.mu.Unlock()
	if c.state != nil && (!c.isYoung(newest) || b.isTight() && time.Since(c.used) >= CacheAge) {
		c.emptyLocked(b)
	}
	return c.state == nil
}

// Empty drops the state and all parts.
func (c *Cache) Empty(b *Budget) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.emptyLocked(b)
}

func (c *Cache) emptyLocked(b *Budget) {
	b.Bytes.Add(-c.bytes)
	c.state, c.parts, c.bytes = nil, nil, 0
}
