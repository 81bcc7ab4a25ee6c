package dispatch

import (
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/sendqueue"
)

// group holds the watchers of one feed that one worker serves and that have delivered
// everything. They remain members while the worker sends them batches, so an event wakes
// the group and not each watcher. A member that needs something other than the group's
// batch leaves, is served alone (Watcher.run), and joins again.
//
// For a member, the group's task replaces its own wake-up. What a member gets next depends on
// its cursor alone.
//
// Everything but size belongs to the worker. Any goroutine may call wake.
type group struct {
	feed       *feed
	dispatcher *Dispatcher
	queue      *sendqueue.Queue
	task       sendqueue.Task
	size       atomic.Int32 // number of members; read by the dispatcher

	at      object.Position // where the group's next batch begins
	sent    int             // events of the next revision that were already sent; see Watcher.sent
	members []member        // ordered by queue, followed by those that joined last
	sorted  int             // number of members in order
}

// member repeats the watcher's queue, so that sorting does not read the watcher's memory.
type member struct {
	queue   *sendqueue.Queue
	watcher *Watcher // nil: it has left
}

// groupOf returns the group that a watcher of the queue joins. The caller holds the
// dispatcher's mutex.
func (d *Dispatcher) groupOf(f *feed, q *sendqueue.Queue) *group {
	for _, g := range f.groups {
		if g.queue.SameWorker(q) {
			return g
		}
	}
	g := &group{feed: f, dispatcher: d, queue: q.Sibling()}
	g.task = g.queue.NewTask(g.run)
	f.groups = append(f.groups, g)
	return g
}

// wake makes the worker send what is new. Any goroutine may call it.
func (g *group) wake() {
	if g.size.Load() > 0 {
		g.task.Ready()
	}
}

// join adds a watcher that had nothing to send when it last read its feed.
func (g *group) join(w *Watcher) {
	if w.slot >= 0 {
		return
	}
	if g.size.Load() == 0 {
		g.at, g.sent = w.at(), 0
	}
	w.slot = int32(len(g.members))
	w.waiting.Store(true)
	g.members = append(g.members, member{w.task.Queue(), w})
	g.size.Add(1)
}

// leave removes a watcher, if it is a member.
func (g *group) leave(w *Watcher) {
	if w.slot < 0 {
		return
	}
	g.members[w.slot].watcher = nil
	w.left()
	g.size.Add(-1)
	if gaps := len(g.members) - int(g.size.Load()); gaps > len(g.members)/2 {
		g.closeGaps()
	}
}

// left records that the watcher is not in its group any more.
func (w *Watcher) left() {
	w.slot = -1
	w.waiting.Store(false)
}

// run sends the next batch to the members. A panic outside of a member's own sink ends all
// members, and not the process.
func (g *group) run(now time.Time) {
	if g.size.Load() == 0 {
		return
	}
	defer func() {
		if p := recover(); p != nil {
			g.fail(&PanicError{p, debug.Stack()})
		}
	}()
	g.sort()
	// The order matters, as in Watcher.events: first read the events, then check that the
	// store was not listed again meanwhile.
	v := g.feed.view.Load()
	if v.after.Epoch != g.at.Epoch || g.at.Revision < v.after.Revision {
		g.dissolve()
		return
	}
	b := g.feed.batch(batchStart{v, g.at.Revision, g.sent}, g.dispatcher)
	if g.at.Revision < g.dispatcher.cfg.Source.State().Relisted() {
		g.dissolve()
		return
	}
	if b == nil {
		return
	}
	g.send(b, now)
	g.at.Revision, g.sent = b.end.after(g.at.Revision, g.sent)
	if b.end.full {
		g.task.Ready()
	}
}

// membersPerClock is the number of members that get the same time and are counted together.
const membersPerClock = 32

// send offers a batch to all members and removes those that leave.
func (g *group) send(b *Batch, now time.Time) {
	kept := 0
	var receiver Sink // of one member that received the batch
	received := 0
	for i := range g.members {
		m := g.members[i]
		if m.watcher == nil {
			continue
		}
		sent, stays := m.watcher.offer(b, now)
		if sent {
			receiver = m.watcher.sink
			received++
		}
		if stays {
			if kept < i {
				g.put(kept, m)
			}
			kept++
		}
		if i%membersPerClock == membersPerClock-1 && received > 0 {
			now = time.Now() // the latency includes the sending
			receiver.Sent(b, received, now)
			received = 0
		}
	}
	if received > 0 {
		receiver.Sent(b, received, time.Now())
	}
	g.truncate(kept, kept)
}

// fail ends Serve of each member with an error. A panic may have interrupted send: then the
// list still has entries of watchers that have left or moved to another slot.
func (g *group) fail(err error) {
	for i, m := range g.members {
		if w := m.watcher; w != nil && w.slot == int32(i) {
			w.left()
			w.fail(err)
		}
	}
	g.truncate(0, 0)
}

// dissolve makes the worker serve each member alone.
func (g *group) dissolve() {
	for _, m := range g.members {
		if m.watcher != nil {
			m.watcher.left()
			m.watcher.task.Ready()
		}
	}
	g.truncate(0, 0)
}

// closeGaps removes the entries of members that have left.
func (g *group) closeGaps() {
	kept, sorted := 0, 0
	for i, m := range g.members {
		if m.watcher == nil {
			continue
		}
		g.put(kept, m)
		kept++
		if i < g.sorted {
			sorted = kept
		}
	}
	g.truncate(kept, sorted)
}

func (g *group) truncate(kept, sorted int) {
	clear(g.members[kept:])
	g.members, g.sorted = g.members[:kept], sorted
	g.size.Store(int32(kept))
}

// sort merges the members that joined last into the order of queues. The members of one
// connection then follow each other, and their messages leave together.
func (g *group) sort() {
	if g.sorted == len(g.members) {
		return
	}
	joined := slices.Clone(g.members[g.sorted:])
	slices.SortFunc(joined, func(a, b member) int { return a.queue.Compare(b.queue) })
	for i, at := g.sorted, len(g.members); len(joined) > 0; {
		at--
		if last := len(joined) - 1; i > 0 && g.members[i-1].queue.Compare(joined[last].queue) > 0 {
			i--
			g.put(at, g.members[i])
		} else {
			g.put(at, joined[last])
			joined = joined[:last]
		}
	}
	g.sorted = len(g.members)
}

// put stores a member at an index.
func (g *group) put(at int, m member) {
	g.members[at] = m
	if m.watcher != nil {
		m.watcher.slot = int32(at)
	}
}
