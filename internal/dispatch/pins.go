package dispatch

import (
	"slices"
	"sync"
	"time"

	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/object"
)

// pinPatience is how long nobody needs to have read from a state that is kept. A
// client that takes longer for one message does not count as one that reads.
const pinPatience = time.Minute

// pins are the states that are kept for catch-ups of several messages. An old state
// can be as large as the present one, so there are only so many: when there is one
// too many, the newest of the others is let go. Whoever reads from it begins anew,
// with another one. The older ones stay until their readers are through or stop
// reading, so each of them makes room in the end for one that stays.
type pins struct {
	limit int

	mu   sync.Mutex
	held []*pin // guarded by mu; in the order in which they were taken
}

// pin is a state that is kept for those who are being brought to it, unless it was
// let go. What it says is guarded by the mutex of pins.
type pin struct {
	state *cacher.State // nil: let go
	users int
	used  time.Time // when one of them last asked for it
}

// take keeps a state for one more user, who has to release it.
func (p *pins) take(s *cacher.State) *pin {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.held, func(held *pin) bool { return held.state == s })
	if i < 0 {
		p.expireLocked()
		if len(p.held) >= p.limit {
			p.letGoLocked(p.held[len(p.held)-1])
		}
		i = len(p.held)
		p.held = append(p.held, &pin{state: s})
	}
	taken := p.held[i]
	taken.users++
	taken.used = time.Now()
	return taken
}

// use returns the state, or nil if it was let go.
func (p *pins) use(one *pin) *cacher.State {
	p.mu.Lock()
	defer p.mu.Unlock()
	one.used = time.Now()
	return one.state
}

// release is the end of a use. There may be none to end.
func (p *pins) release(one *pin) {
	if one == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if one.users--; one.users == 0 {
		p.letGoLocked(one)
	}
}

// oldest returns the oldest of the states that are not older than needed and of the
// epoch, or nil. It is the one that stays the longest.
func (p *pins) oldest(epoch object.Epoch, needed object.Revision) *cacher.State {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, one := range p.held {
		if at := one.state.Position(); at.Epoch == epoch && at.Revision >= needed {
			return one.state
		}
	}
	return nil
}

// expire lets go of the states from which nobody has read for long.
func (p *pins) expire() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expireLocked()
}

func (p *pins) expireLocked() {
	for _, one := range slices.Clone(p.held) {
		if time.Since(one.used) >= pinPatience {
			p.letGoLocked(one)
		}
	}
}

func (p *pins) letGoLocked(one *pin) {
	one.state = nil
	p.held = slices.DeleteFunc(p.held, func(held *pin) bool { return held == one })
}
