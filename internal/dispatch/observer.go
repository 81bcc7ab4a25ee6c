package dispatch

import (
	"time"

	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/object"
)

// Observer watches changes on their way to watchers. The dispatcher calls it between two
// rounds, when it has woken the workers and holds no lock. The next round waits for it.
type Observer interface {
	// Wants reports whether the observer wants reports now. The dispatcher asks once per
	// round.
	Wants() bool

	// Dispatched reports that watchers can read the changes of a revision. Some may have
	// received them already.
	Dispatched(Dispatched)
}

// Dispatched describes how the changes of one revision were dispatched.
type Dispatched struct {
	Revision object.Revision
	Feeds    int // feeds that got events

	Arrived time.Time // from the store
	Applied time.Time // a state with the changes was published, not later than this
	Began   time.Time // the round that dispatched them
	Ended   time.Time // when that round ended
}

// round collects what the observer gets to know about one round. Without an observer it
// does nothing.
type round struct {
	observer Observer // nil: no reports are wanted
	applied  time.Time
	began    time.Time
	ended    time.Time
	all      []Dispatched
}

func (d *Dispatcher) observe(s *cacher.State) *round {
	if d.cfg.Observer == nil || !d.cfg.Observer.Wants() {
		return &unobserved
	}
	return &round{observer: d.cfg.Observer, applied: s.Published(), began: time.Now()}
}

var unobserved round

// change notes the change whose events follow.
func (r *round) change(c *object.Change, arrived time.Time) {
	if r.observer == nil {
		return
	}
	if n := len(r.all); n == 0 || r.all[n-1].Revision != c.Revision {
		r.all = append(r.all, Dispatched{Revision: c.Revision, Arrived: arrived, Applied: r.applied, Began: r.began})
	}
}

// event records that the change is an event of the feed.
func (r *round) event(f *feed) {
	if r.observer == nil {
		return
	}
	current := &r.all[len(r.all)-1]
	if f.noted != current.Revision {
		f.noted = current.Revision
		current.Feeds++
	}
}

// end records that watchers can read the changes.
func (r *round) end() {
	if r.observer != nil {
		r.ended = time.Now()
	}
}

// report calls the observer.
func (r *round) report() {
	if r.observer == nil {
		return
	}
	for _, one := range r.all {
		one.Ended = r.ended
		r.observer.Dispatched(one)
	}
}
