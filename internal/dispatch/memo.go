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

// memoAge is how long newcomers join those who are being brought to a state that
// is no longer the newest, if it is fresh enough for them. What is newer they get
// as events.
const memoAge = 100 * time.Millisecond

// memo lets watchers of one interest who catch up at the same time share the
// work: they are brought to the same state, and a part that was made for one of
// them is there for the others. It is kept for a while only, because it keeps a
// state.
type memo struct {
	mu    sync.Mutex    // guards everything below; held while a part is made, so that it is made once
	state *cacher.State // that is caught up with; nil: none
	taken time.Time     // when it was taken
	used  time.Time     // when somebody last joined or asked for a part
	parts map[partKey]part
	bytes int64 // what the parts hold
}

// memoBudget bounds what all memos of a dispatcher hold. What finds no room is
// made again for everyone who needs it. A memo may hold as much as it leaves to the
// others, so that none of them uses it up.
type memoBudget struct {
	limit int64
	bytes atomic.Int64
}

// isTight reports whether another memo would find little room.
func (b *memoBudget) isTight() bool { return b.bytes.Load() > b.limit/4 }

// partKey says which part of which catch-up a part is. What a watcher reads from
// the window is a REPLAY, announced or not.
type partKey struct {
	kind object.CatchUp
	from object.Revision // DELTA: what is known already; RESET: the revision that is shown; REPLAY: up to where it is merged, or 0
	mark mark
}

// mark is where in a catch-up a part begins: of a RESET at a key, of a DELTA
// behind a difference, of a REPLAY after a revision.
type mark struct {
	cacher.ChangeID
	skip  int          // REPLAY: events of the revision that follows, which came before
	epoch object.Epoch // REPLAY
}

// part is what is sent at once.
type part struct {
	pieces  [][]byte
	end     cut
	next    mark            // RESET and DELTA: where the next part begins
	last    bool            // RESET and DELTA: there is no next part
	through object.Revision // REPLAY: there are no other events up to here; 0: there may be
	lost    bool            // REPLAY: the events are no longer known
	arrived time.Time       // REPLAY: when the first of the changes came from the store

	together bool // see gather
}

func (p *part) batch() batch { return batch{p.pieces, p.end.taken, p.arrived} }

// size returns the bytes of memory that keeping the part accounts for. Whether
// the pieces belong to objects or were encoded for the part is not looked at.
func (p *part) size() int64 { return p.sizeOf(len(p.pieces)) }

// sizeOf is size, if the part were of so many pieces.
func (p *part) sizeOf(pieces int) int64 {
	const header = 32 // of a piece, and its share of what surrounds them
	return int64(header*(pieces+4) + p.end.bytes)
}

// smallPiece is what is copied together with its neighbours where watchers share a part.
// To send a piece takes more than a hundred bytes of memory for each of them, as long as
// it is on its way; to copy one takes its size once.
const smallPiece = 4 << 10

// neighbours returns the pieces by those that belong together: small ones that follow each
// other, or a large one.
func (p *part) neighbours() iter.Seq[[][]byte] {
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

// gather makes fewer pieces of the same bytes.
func (p *part) gather() {
	var fewer [][]byte
	for some := range p.neighbours() {
		if len(some) == 1 {
			fewer = append(fewer, some[0])
		} else {
			fewer = append(fewer, slices.Concat(some...))
		}
	}
	p.pieces, p.together = fewer, true
}

// gathered returns the size of the part when it is gathered.
func (p *part) gathered() int64 {
	n := 0
	for range p.neighbours() {
		n++
	}
	return p.sizeOf(n)
}

// join returns a state that is not older than needed: the one that others are
// being brought to, or the newest.
func (m *memo) join(newest *cacher.State, needed object.Revision, b *memoBudget) *cacher.State {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.state != nil && m.state.Position().Epoch == newest.Position().Epoch && m.state.Revision() >= needed && m.isYoung(newest) {
		m.used = time.Now()
		return m.state
	}
	m.dropLocked(b)
	m.begin(newest)
	return newest
}

// open makes sure that parts are remembered, and reports whether they were not.
func (m *memo) open(newest *cacher.State) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.parts != nil {
		return false
	}
	m.begin(newest)
	return true
}

func (m *memo) begin(s *cacher.State) {
	now := time.Now()
	m.state, m.taken, m.used, m.parts = s, now, now, map[partKey]part{}
}

func (m *memo) isYoung(newest *cacher.State) bool {
	return m.state == newest || time.Since(m.taken) < memoAge
}

// part returns a part of a catch-up with the state, which one of those who need it
// makes. A REPLAY shows what has happened, whatever the state is, and has none.
func (m *memo) part(state *cacher.State, key partKey, b *memoBudget, makePart func() part) part {
	m.mu.Lock()
	if m.parts == nil || state != nil && state != m.state {
		m.mu.Unlock()
		return makePart() // the others have arrived, or go elsewhere by now
	}
	defer m.mu.Unlock()
	m.used = time.Now()
	if p, ok := m.parts[key]; ok {
		if !p.together { // who is alone is not worth the copy
			m.account(-p.size(), b)
			p.gather()
			m.account(p.size(), b)
			m.parts[key] = p
		}
		return p
	}
	p := makePart()
	if state == nil && len(p.pieces) == 0 {
		return p // nothing is remembered of a REPLAY that found nothing: there may be more
	}
	if !m.hasRoom(p.size(), b) && m.hasRoom(p.gathered(), b) {
		p.gather()
	}
	if n := p.size(); m.hasRoom(n, b) {
		m.parts[key] = p
		m.account(n, b)
	}
	return p
}

func (m *memo) hasRoom(n int64, b *memoBudget) bool {
	return m.bytes+n <= b.limit-b.bytes.Load()-n
}

func (m *memo) account(n int64, b *memoBudget) {
	m.bytes += n
	b.bytes.Add(n)
}

// expire drops the memo if it is out of date, or if room is needed and nobody has used
// it for a while, and reports whether there is none.
func (m *memo) expire(newest *cacher.State, b *memoBudget) bool {
	if !m.mu.TryLock() {
		return false // it is in use; there will be another occasion
	}
	defer m.mu.Unlock()
	if m.state != nil && (!m.isYoung(newest) || b.isTight() && time.Since(m.used) >= memoAge) {
		m.dropLocked(b)
	}
	return m.state == nil
}

func (m *memo) drop(b *memoBudget) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dropLocked(b)
}

func (m *memo) dropLocked(b *memoBudget) {
	b.bytes.Add(-m.bytes)
	m.state, m.parts, m.bytes = nil, nil, 0
}
