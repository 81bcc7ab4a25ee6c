package dispatch

import (
	"time"

	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/object"
)

// Observer is told what becomes of changes on their way to watchers. It is called by
// the dispatcher between two rounds, so it must not wait for anything.
type Observer interface {
	// Wants reports whether anybody wants to know. It is asked once in each round, so
	// it costs next to nothing.
	Wants() bool

	// Dispatched says that the changes of a revision can be read by the watchers
	// whom they concern.
	Dispatched(Dispatched)
}

// Dispatched is what became of the changes of one revision.
type Dispatched struct {
	Revision object.Revision
	Feeds    int // to the logs of which events were appended

	Arrived time.Time // from the store
	Applied time.Time // the state with them became visible, at the latest
	Began   time.Time // the round in which they were dispatched
	Ended   time.Time // the same
}

// round takes down for the observer what is done in one round. It does nothing if
// nobody wants to know.
type round struct {
	observer Observer // nil: nobody wants to know
	applied  time.Time
	began    time.Time
	all      []Dispatched
}

func (d *Dispatcher) observe(s *cacher.State) *round {
	if d.cfg.Observer == nil || !d.cfg.Observer.Wants() {
		return &noRound
	}
	return &round{observer: d.cfg.Observer, applied: s.Published(), began: time.Now()}
}

var noRound round

// change says that it is about this change from now on.
func (r *round) change(c *object.Change, arrived time.Time) {
	if r.observer == nil {
		return
	}
	if n := len(r.all); n == 0 || r.all[n-1].Revision != c.Revision {
		r.all = append(r.all, Dispatched{Revision: c.Revision, Arrived: arrived, Applied: r.applied, Began: r.began})
	}
}

// event says that the change is an event of the feed.
func (r *round) event(f *feed) {
	if r.observer == nil {
		return
	}
	now := &r.all[len(r.all)-1]
	if f.noted != now.Revision {
		f.noted = now.Revision
		now.Feeds++
	}
}

// tell tells the observer.
func (r *round) tell() {
	if r.observer == nil {
		return
	}
	ended := time.Now()
	for _, one := range r.all {
		one.Ended = ended
		r.observer.Dispatched(one)
	}
}

// Shows reports whether the log of the watcher's feed has an event of the revision,
// so that a message of the watcher that goes beyond it has told it. It may be called
// from any goroutine.
func (w *Watcher) Shows(at object.Revision) bool {
	v := w.feed.view.Load()
	n, first := v.behind(at - 1)
	return n > 0 && first == at
}
