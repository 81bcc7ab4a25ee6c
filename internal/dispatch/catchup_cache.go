package dispatch

import (
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/object"
)

// catchUpCacheAge is how long after a state was taken new watchers catch up to it although
// there is a newer one, if it satisfies their consistency. Newer changes follow as events.
// It is also the interval of sweeps, and how long an unused part stays.
const catchUpCacheAge = 100 * time.Millisecond

// catchUpCache lets the watchers of one interest that catch up at the same time share the
// work. They catch up to the same state, and use the parts that one of them made. A sweep
// drops the state 100 ms after it was taken, once there is a newer one.
type catchUpCache struct {
	mu    sync.Mutex    // guards everything below; held while a part is made, so it is made once
	state *cacher.State // to which the watchers catch up; nil: none
	taken time.Time     // when the state was taken
	used  time.Time     // when a watcher last joined or asked for a part
	parts map[partKey]part
	bytes int64 // size of the parts
}

// catchUpBudget limits the memory of all caches of a dispatcher. Parts that do not fit are
// made for each watcher. One cache may hold at most as much as is still free.
type catchUpBudget struct {
	limit int64
	bytes atomic.Int64
}

// isTight reports whether more than a quarter of the budget is used. Unused parts are then
// dropped early.
func (b *catchUpBudget) isTight() bool { return b.bytes.Load() > b.limit/4 }

// partKey identifies a part of a catch-up. Parts that are read from the window have the kind
// REPLAY, also for live watchers that have fallen out of the log.
type partKey struct {
	kind object.CatchUp

	// DELTA: where the watcher was. RESET: the revision of the snapshot. REPLAY: the
	// revision up to which events are merged, or 0.
	from object.Revision

	place place
}

// place is where in a catch-up a part begins. RESET: at the Key. DELTA: after the ChangeID.
// REPLAY: after the revision At, without the first skip events.
type place struct {
	cacher.ChangeID
	skip  int          // REPLAY: events of the next revision that were sent before
	epoch object.Epoch // REPLAY
}

// part is the content of one message of a catch-up.
type part struct {
	pieces  [][]byte
	end     batchCut
	next    place           // RESET and DELTA: where the next part begins
	last    bool            // RESET and DELTA: there is no next part
	through object.Revision // REPLAY: there are no other events up to here; 0: there may be
	lost    bool            // REPLAY: the events are gone
	arrived time.Time       // REPLAY: when the first of the changes came from the store

	joined bool // see joinPieces
}

func (p *part) payload() payload { return payload{p.pieces, p.end.taken, p.arrived} }

// size returns the memory that the part accounts for, including pieces that share the memory
// of objects.
func (p *part) size() int64 { return p.sizeWith(len(p.pieces)) }

// sizeWith returns the size if the part had n pieces.
func (p *part) sizeWith(n int) int64 {
	const header = 32 // bytes of a piece besides its content
	return int64(header*(n+4) + p.end.bytes)
}

// smallPiece is the largest piece that is joined with its neighbours in a shared part.
// Sending a piece takes more than a hundred bytes per watcher while it is on its way;
// copying it takes its size once.
const smallPiece = 4 << 10

// runs returns the pieces in runs: small ones that follow each other, or one large piece.
func (p *part) runs() iter.Seq[[][]byte] {
	return func(yield func([][]byte) bool) {
		for pieces := p.pieces; len(pieces) > 0; {
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

// joinPieces copies small pieces together.
func (p *part) joinPieces() {
	var fewer [][]byte
	for run := range p.runs() {
		if len(run) == 1 {
			fewer = append(fewer, run[0])
		} else {
			fewer = append(fewer, slices.Concat(run...))
		}
	}
	p.pieces, p.joined = fewer, true
}

// joinedSize returns the size of the part after joinPieces.
func (p *part) joinedSize() int64 {
	n := 0
	for range p.runs() {
		n++
	}
	return p.sizeWith(n)
}

// join returns a state that is not older than needed: the one to which others catch up, or
// the newest.
func (m *catchUpCache) join(newest *cacher.State, needed object.Revision, b *catchUpBudget) *cacher.State {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.state != nil && m.state.Position().Epoch == newest.Position().Epoch && m.state.Revision() >= needed && m.isYoung(newest) {
		m.used = time.Now()
		return m.state
	}
	m.dropLocked(b)
	m.beginLocked(newest)
	return newest
}

// open makes the cache keep parts, and reports whether it did not before.
func (m *catchUpCache) open(newest *cacher.State) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.parts != nil {
		return false
	}
	m.beginLocked(newest)
	return true
}

func (m *catchUpCache) beginLocked(s *cacher.State) {
	now := time.Now()
	m.state, m.taken, m.used, m.parts = s, now, now, map[partKey]part{}
}

func (m *catchUpCache) isYoung(newest *cacher.State) bool {
	return m.state == newest || time.Since(m.taken) < catchUpCacheAge
}

// part returns a part of a catch-up to the state; the first caller makes it. The state is
// nil for a REPLAY, which shows what has happened, whatever the state is.
func (m *catchUpCache) part(state *cacher.State, key partKey, b *catchUpBudget, makePart func() part) part {
	m.mu.Lock()
	if m.parts == nil || state != nil && state != m.state {
		m.mu.Unlock()
		return makePart() // the cache is empty or holds another state
	}
	defer m.mu.Unlock()
	m.used = time.Now()
	if p, ok := m.parts[key]; ok {
		if !p.joined { // the copy pays from the second watcher on
			m.accountLocked(-p.size(), b)
			p.joinPieces()
			m.accountLocked(p.size(), b)
			m.parts[key] = p
		}
		return p
	}
	p := makePart()
	if state == nil && len(p.pieces) == 0 {
		return p // an empty REPLAY is not kept, because there may be more soon
	}
	if !m.hasRoomLocked(p.size(), b) && m.hasRoomLocked(p.joinedSize(), b) {
		p.joinPieces()
	}
	if n := p.size(); m.hasRoomLocked(n, b) {
		m.parts[key] = p
		m.accountLocked(n, b)
	}
	return p
}

func (m *catchUpCache) hasRoomLocked(n int64, b *catchUpBudget) bool {
	return m.bytes+n <= b.limit-b.bytes.Load()-n
}

func (m *catchUpCache) accountLocked(n int64, b *catchUpBudget) {
	m.bytes += n
	b.bytes.Add(n)
}

// expire empties the cache if it is outdated, or if it was not used for a while and the
// budget is tight. It reports whether the cache is empty.
func (m *catchUpCache) expire(newest *cacher.State, b *catchUpBudget) bool {
	if !m.mu.TryLock() {
		return false // in use; a later sweep tries again
	}
	defer m.mu.Unlock()
	if m.state != nil && (!m.isYoung(newest) || b.isTight() && time.Since(m.used) >= catchUpCacheAge) {
		m.dropLocked(b)
	}
	return m.state == nil
}

func (m *catchUpCache) drop(b *catchUpBudget) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dropLocked(b)
}

func (m *catchUpCache) dropLocked(b *catchUpBudget) {
	b.bytes.Add(-m.bytes)
	m.state, m.parts, m.bytes = nil, nil, 0
}
