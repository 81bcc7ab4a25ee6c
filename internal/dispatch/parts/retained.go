package parts

import (
	"slices"
	"sync"
	"time"

	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/object"
)

// retainTime is how long a state stays retained while no catch-up reads it. A catch-up does not
// read its state while the client does not accept the next message.
const retainTime = time.Minute

// RetainedStates are the past states that are kept for catch-ups of several messages. A past
// state can be as large as the present one, so the number of retained states is limited. To
// make room for a new state, the most recently taken one is dropped. Readers of the dropped
// state continue from the newest state or start over; see package catchup.
// Older states stay until their readers have finished, or have read nothing for retainTime.
type RetainedStates struct {
	Limit int

	mu   sync.Mutex
	held []*RetainedState // guarded by mu; in the order in which they were taken
}

// RetainedState is one retained state. The mutex of RetainedStates guards its fields.
type RetainedState struct {
	state *cacher.State // nil: dropped
	users int           // number of catch-ups that have taken the state and not released it
	used  time.Time     // when a catch-up last took or read the state
}

// Take retains a state for one more catch-up, which must release the state.
func (r *RetainedStates) Take(s *cacher.State) *RetainedState {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := slices.IndexFunc(r.held, func(one *RetainedState) bool { return one.state == s })
	if i < 0 {
		r.expireLocked()
		if len(r.held) >= r.Limit {
			r.dropLocked(r.held[len(r.held)-1])
		}
		i = len(r.held)
		r.held = append(r.held, &RetainedState{state: s})
	}
	taken := r.held[i]
	taken.users++
	taken.used = time.Now()
	return taken
}

// Use returns the state for a read, or nil if the state is no longer retained.
func (r *RetainedStates) Use(one *RetainedState) *cacher.State {
	r.mu.Lock()
	defer r.mu.Unlock()
	one.used = time.Now()
	return one.state
}

// Release ends the use of a state by one catch-up. If no other catch-up uses the state,
// Release drops it. The argument may be nil.
func (r *RetainedStates) Release(one *RetainedState) {
	if one == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if one.users--; one.users == 0 {
		r.dropLocked(one)
	}
}

// Oldest returns a state with the given epoch whose revision is at least the given one, or
// nil. If there are several, it returns the state that was taken first, because this state
// stays retained the longest.
func (r *RetainedStates) Oldest(epoch object.Epoch, needed object.Revision) *cacher.State {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range r.held {
		if at := one.state.Position(); at.Epoch == epoch && at.Revision >= needed {
			return one.state
		}
	}
	return nil
}

// Expire drops the states that no catch-up has used for retainTime.
func (r *RetainedStates) Expire() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.expireLocked()
}

func (r *RetainedStates) expireLocked() {
	for _, one := range slices.Clone(r.held) {
		if time.Since(one.used) >= retainTime {
			r.dropLocked(one)
		}
	}
}

func (r *RetainedStates) dropLocked(one *RetainedState) {
	one.state = nil
	r.held = slices.DeleteFunc(r.held, func(held *RetainedState) bool { return held == one })
}

// Count returns the number of retained states.
func (r *RetainedStates) Count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.held)
}
