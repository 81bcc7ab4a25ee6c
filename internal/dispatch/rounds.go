package dispatch

import (
	"sync"
	"time"

	"github.com/fanoutd/fanoutd/internal/sendqueue"
)

// workerRounds hands the rounds of a dispatcher to one worker. A round makes one task ready for
// each worker, however many groups have new events.
type workerRounds struct {
	queue *sendqueue.Queue // a queue of the worker
	task  sendqueue.Task

	next []*group // the groups that the present round hands over; guarded by the dispatcher's mutex

	mu     sync.Mutex
	groups []*group // guarded by mu: the groups with new events, in the order in which they got them
	spare  []*group // guarded by mu: empty memory for groups

	left int // number of groups that the worker still has to run; only the worker uses it
}

// roundsOf returns the rounds for the worker of a queue. The caller holds the dispatcher's
// mutex.
func (d *Dispatcher) roundsOf(q *sendqueue.Queue) *workerRounds {
	for _, r := range d.workers {
		if r.queue.SameWorker(q) {
			return r
		}
	}
	r := &workerRounds{queue: q.Sibling()}
	r.task = r.queue.NewTask(r.run)
	d.workers = append(d.workers, r)
	return r
}

// handOver gives the groups whose feeds the present round has published to their workers. The
// caller holds the mutex. Each worker gets all its groups under one lock, so it never sees a
// part of a round.
func (d *Dispatcher) handOver() {
	for i, f := range d.unpublished {
		for _, g := range f.groups {
			if g.size.Load() > 0 {
				g.rounds.next = append(g.rounds.next, g)
			}
		}
		d.unpublished[i] = nil
	}
	d.unpublished = d.unpublished[:0]
	for _, r := range d.workers {
		if len(r.next) > 0 {
			r.add(r.next...)
			clear(r.next)
			r.next = r.next[:0]
		}
	}
}

// add makes the worker run the groups, in the order of the list and each of them once.
func (r *workerRounds) add(groups ...*group) {
	r.mu.Lock()
	for _, g := range groups {
		if !g.listed {
			g.listed = true
			r.groups = append(r.groups, g)
		}
	}
	r.mu.Unlock()
	r.task.Ready()
}

// run runs the groups that have new events. The worker then serves its other queues, even if
// there are new events already.
func (r *workerRounds) run(now time.Time) {
	groups := r.take()
	for i, g := range groups {
		r.left = len(groups) - i - 1
		if i > 0 {
			now = time.Now() // sending to the members of a group may take long
		}
		g.run(now)
	}
	clear(groups)
	r.mu.Lock()
	r.spare = groups[:0]
	r.mu.Unlock()
}

// take returns the groups with new events, and empties the list.
func (r *workerRounds) take() []*group {
	r.mu.Lock()
	defer r.mu.Unlock()
	taken := r.groups
	r.groups, r.spare = r.spare, nil
	for _, g := range taken {
		g.listed = false
	}
	return taken
}

// idle reports whether nothing waits for the worker besides the group that it runs.
func (r *workerRounds) idle() bool { return r.left == 0 && r.queue.Idle() }
