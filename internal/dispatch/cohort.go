package dispatch

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/sendqueue"
)

// Follower serves a watcher on a lane, which ten thousand share: what concerns them is
// looked up once for all of one interest, and each is told the same message.
type Follower interface {
	// Task polls the watcher: [Watcher.Poll] and [Watcher.Settle] until there is nothing
	// more. It is made ready whenever the watcher may have something to say that
	// others have not. The followers of a dispatcher are served by the same
	// [sendqueue.Workers].
	Task() *sendqueue.Task

	// Near is called a little before Tell, and looks at what that will look at; see
	// cohort.approach. It must not change anything, nor wait. What it returns does not
	// matter.
	Near() int

	// Tell is called by the worker of the task's lane with a message that others are
	// told, and that is the next one if [Watcher.Take] says so. It must not wait.
	Tell(t *Telling, now time.Time) Reply

	// Told is called now and then with a number of followers, of whom this is one, that
	// were told a message. It is for those who count.
	Told(t *Telling, n int, now time.Time)
}

// Reply is what a follower says to a message.
type Reply uint8

// The replies.
const (
	Stays  Reply = iota // it was not told, because it knows that already
	Took                // it was told
	Leaves              // it was not told, or is not to be told more: it sees for itself that it is polled again
)

// cohort are the followers of one feed that one worker serves and that wait for what
// happens next. They remain in it while they are told what happens, so that an event
// costs each of them nothing but its message. One who cannot take a message, or needs
// another one, leaves; it is polled until there is nothing more, and so joins again.
//
// That somebody is in it promises nothing but that it need not be woken in any other way:
// what the next message of a watcher is its cursor says.
type cohort struct {
	feed       *feed
	dispatcher *Dispatcher
	lane       *sendqueue.Queue
	task       sendqueue.Task // tells
	size       atomic.Int32   // of members; for who publishes. Not 0 while somebody waits

	mu     sync.Mutex
	closed []*Watcher // guarded by mu: they are still to be removed

	// What follows belongs to the worker.

	at      object.Position // nobody waits for what happened up to there
	sent    int             // as in Watcher, of those that are told a revision in parts
	members []member        // in the order of lanes, and then those who joined last
	sorted  int             // how many are in order

	patience time.Duration // that is left for yielding with this message
	calm     time.Time     // until then others have much to do
	seen     int           // what approach has seen: nobody asks, but it is not left out
}

// member has at hand what is asked of a follower, so that those who are told nothing
// are not looked at.
type member struct {
	lane     *sendqueue.Queue
	watcher  *Watcher // nil: it has left
	follower Follower
}

// cohortOf returns the cohort that a follower is to join. It is called with the
// dispatcher's mutex held.
func (d *Dispatcher) cohortOf(f *feed, on *sendqueue.Queue) *cohort {
	for _, c := range f.cohorts {
		if c.lane.SameWorker(on) {
			return c
		}
	}
	c := &cohort{feed: f, dispatcher: d, lane: on.Sibling()}
	c.task = c.lane.NewTask(c.run)
	f.cohorts = append(f.cohorts, c)
	return c
}

// wake has the members told what is new.
func (c *cohort) wake() {
	if c.size.Load() > 0 {
		c.task.Ready()
	}
}

// join adds a watcher who knows everything there was when its feed was last read. It is
// called on the worker.
func (c *cohort) join(w *Watcher) {
	if w.slot >= 0 {
		return
	}
	if c.size.Load() == 0 {
		c.at, c.sent = w.at(), 0
	}
	w.slot = len(c.members)
	w.waits.Store(true)
	c.members = append(c.members, member{w.follower.Task().Queue(), w, w.follower})
	c.size.Add(1)
}

// left notes that the watcher is not in its cohort any more.
func (w *Watcher) left() {
	w.slot = -1
	w.waits.Store(false)
}

// leave removes a watcher soon. It may be called by anybody.
func (c *cohort) leave(w *Watcher) {
	c.mu.Lock()
	c.closed = append(c.closed, w)
	c.mu.Unlock()
	c.task.Ready()
}

// run tells the members what is new.
func (c *cohort) run(now time.Time) {
	c.remove()
	if c.size.Load() == 0 {
		return
	}
	c.arrange()
	// The order matters, as in events: first what is told, then whether that was all.
	v := c.feed.view.Load()
	if v.after.Epoch != c.at.Epoch || c.at.Revision < v.after.Revision {
		c.dissolve()
		return
	}
	t := c.feed.telling(telling{v, c.at.Revision, c.sent}, c.dispatcher)
	if c.at.Revision < c.dispatcher.cfg.Source.State().Relisted() {
		c.dissolve()
		return
	}
	if t == nil {
		return
	}
	c.tell(t, now)
	c.at.Revision, c.sent = t.end.after(c.at.Revision, c.sent)
	if t.end.full {
		c.task.Ready()
	}
}

// timely is how many members are told the same time, and counted together.
const timely = 32

// tell tells the members a message, and closes the gaps that those leave who leave.
func (c *cohort) tell(t *Telling, now time.Time) {
	kept := 0
	c.patience = patienceForMessage
	var told Follower
	took := 0
	for i := range c.members {
		if i%near == 0 {
			c.approach(i)
		}
		m := c.members[i]
		if m.watcher == nil {
			continue
		}
		if kept > 0 && m.lane != c.members[kept-1].lane {
			now = c.yield(now)
		}
		reply := m.follower.Tell(t, now)
		if reply == Took {
			told = m.follower
			took++
		}
		switch {
		case reply == Leaves:
			m.watcher.left()
		case kept < i:
			c.put(kept, m)
			kept++
		default:
			kept++
		}
		if i%timely == timely-1 && took > 0 {
			told.Told(t, took, now)
			took, now = 0, time.Now()
		}
	}
	if took > 0 {
		told.Told(t, took, now)
	}
	c.trim(kept, kept)
}

// near is how many members are approached at once.
const near = 8

// approach looks at what telling the next members will look at. Of ten thousand that is not
// in the caches: a processor can fetch it for several of them at once, and would wait for
// one after the other while they are told. (5 to 11 percent with 10,000, 100 on a
// connection.)
func (c *cohort) approach(from int) {
	defer func() { _ = recover() }() // whatever it is, Tell meets it as well, and says who panics
	for _, m := range c.members[from:min(from+near, len(c.members))] {
		if m.watcher == nil {
			continue
		}
		if m.watcher.latest {
			c.seen++
		}
		c.seen += m.follower.Near()
	}
}

// yield lets the transport of a connection write what was told on its lane while that is
// in the caches: behind that of ten thousand others it would not be. Not where other
// cohorts wait, whose messages may be for the same connections and should leave with
// these; and where others than we have much to do it would be long until it is our turn
// again, so there it is not tried often. It is told the time of shortly before, and
// returns that of now.
func (c *cohort) yield(before time.Time) time.Time {
	if !c.lane.Idle() || before.Before(c.calm) {
		return before
	}
	runtime.Gosched()
	now := time.Now()
	took := now.Sub(before)
	if c.patience += patienceForLane - took; c.patience < 0 {
		c.calm = now.Add(32 * took)
	}
	return now
}

// How long yielding may take: for a message, and besides for each lane. Writing to a
// connection takes some ten microseconds; processes that have the same processors may
// hold it up for a few milliseconds, which says nothing of our own load.
const (
	patienceForMessage = 10 * time.Millisecond
	patienceForLane    = 200 * time.Microsecond
)

// dissolve has every member look for itself.
func (c *cohort) dissolve() {
	for _, m := range c.members {
		if m.watcher != nil {
			m.watcher.left()
			m.follower.Task().Ready()
		}
	}
	c.trim(0, 0)
}

// remove removes those who are closed.
func (c *cohort) remove() {
	c.mu.Lock()
	closed := c.closed
	c.closed = nil
	c.mu.Unlock()
	for _, w := range closed {
		if w.slot >= 0 {
			c.members[w.slot].watcher, c.members[w.slot].follower = nil, nil
			w.left()
			c.size.Add(-1)
		}
	}
	if gaps := len(c.members) - int(c.size.Load()); gaps > len(c.members)/2 {
		c.closeGaps()
	}
}

// closeGaps forgets the places of those who have left.
func (c *cohort) closeGaps() {
	kept, sorted := 0, 0
	for i, m := range c.members {
		if m.watcher == nil {
			continue
		}
		c.put(kept, m)
		kept++
		if i < c.sorted {
			sorted = kept
		}
	}
	c.trim(kept, sorted)
}

func (c *cohort) trim(kept, sorted int) {
	clear(c.members[kept:])
	c.members, c.sorted = c.members[:kept], sorted
	c.size.Store(int32(kept))
}

// arrange puts those who have joined in order: so those of one lane are told one after
// another, and what they are sent leaves together.
func (c *cohort) arrange() {
	if c.sorted == len(c.members) {
		return
	}
	joined := slices.Clone(c.members[c.sorted:])
	slices.SortFunc(joined, func(a, b member) int { return a.lane.Compare(b.lane) })
	for i, at := c.sorted, len(c.members); len(joined) > 0; {
		at--
		if last := len(joined) - 1; i > 0 && c.members[i-1].lane.Compare(joined[last].lane) > 0 {
			i--
			c.put(at, c.members[i])
		} else {
			c.put(at, joined[last])
			joined = joined[:last]
		}
	}
	c.sorted = len(c.members)
}

// put puts a member somewhere.
func (c *cohort) put(at int, m member) {
	c.members[at] = m
	if m.watcher != nil {
		m.watcher.slot = at
	}
}
