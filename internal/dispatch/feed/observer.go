package feed

import (
	"time"

	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/object"
)

// Observer gets reports about the changes that were appended to feeds. No lock is held
// while its methods are called.
type Observer interface {
	// Wants reports whether the observer wants reports of the round that begins now. The
	// round waits until Wants returns.
	Wants() bool

	// Dispatched reports that watches can read the changes of a revision. The
	// workers were already woken, so some watches may have received the changes. The next
	// round waits until Dispatched returns.
	Dispatched(Dispatched)
}

// Dispatched describes how the changes of one revision were dispatched.
type Dispatched struct {
	Revision object.Revision
	Feeds    int // number of feeds that got events

	Arrived time.Time // when the changes came from the store
	Applied time.Time // when the cacher published the state that the round dispatched; an earlier state may have had the changes, too
	Began   time.Time // when the round that dispatched the changes began
	Ended   time.Time // when watches could read the changes
}

// roundReports collects the reports of one round. A nil one collects nothing, because the observer
// wants no reports.
type roundReports struct {
	applied, began time.Time
	all            []Dispatched
}

// beginRound asks the observer whether it wants reports. The caller holds no lock, because the
// observer may use the feeds.
func (fs *Feeds) beginRound(s *cacher.State) *roundReports {
	if fs.Config.Observer == nil || !fs.Config.Observer.Wants() {
		return nil
	}
	return &roundReports{applied: s.Published(), began: time.Now()}
}

// change begins the report of a revision with its first change. The caller then calls the
// method event for each feed that gets an event from the change.
func (r *roundReports) change(c *object.Change, arrived time.Time) {
	if r == nil {
		return
	}
	if n := len(r.all); n == 0 || r.all[n-1].Revision != c.Revision {
		r.all = append(r.all, Dispatched{Revision: c.Revision, Arrived: arrived, Applied: r.applied, Began: r.began})
	}
}

// event records that the current change caused an event in the feed.
func (r *roundReports) event(f *Feed) {
	if r == nil {
		return
	}
	current := &r.all[len(r.all)-1]
	if f.reported != current.Revision {
		f.reported = current.Revision
		current.Feeds++
	}
}

// report reports each revision to the observer. Watches can read the changes since the given time.
func (r *roundReports) report(to Observer, ended time.Time) {
	if r == nil {
		return
	}
	for _, one := range r.all {
		one.Ended = ended
		to.Dispatched(one)
	}
}
