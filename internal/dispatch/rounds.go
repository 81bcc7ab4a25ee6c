package dispatch

import (
	"sync"
	"time"

	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/sendqueue"
)

// workerRounds hands the rounds of a dispatcher to one worker. A round makes one task ready for
// each worker, however many groups have new events.
type workerRounds struct {
	dispatcher *Dispatcher

	queue  *sendqueue.Queue // a queue of the worker
	task   sendqueue.Task
	ending sendqueue.Task // ends the watches of streams, because the dispatcher has stopped

	// The mutex of the feeds guards the two fields below.

	next    []*group // the groups that the present round hands over
	watches int      // number of watches of the worker

	mu       sync.Mutex
	groups   []*group        // guarded by mu: the groups with new events, in the order in which they got them
	spare    []*group        // guarded by mu: empty memory for groups
	position object.Position // guarded by mu: of the latest round; kept only for streams
	awaited  bool            // guarded by mu: a stream waits for the next round, even if it has no events

	// Only the worker uses the fields below.

	left      int               // number of groups that the worker still has to run
	bound     object.Position   // the groups of all rounds up to this position have marked their streams
	waiting   []*streamResource // their streams wait for a later bound
	resources map[*streamResource]struct{}
}

// roundsOf returns the rounds for the worker of a queue. The caller holds the mutex
// of the feeds.
func (d *Dispatcher) roundsOf(q *sendqueue.Queue) *workerRounds {
	for _, r := range d.workers {
		if r.queue.SameWorker(q) {
			return r
		}
	}
	r := &workerRounds{dispatcher: d, queue: q.Sibling(), resources: map[*streamResource]struct{}{}}
	r.task, r.ending = r.queue.NewTask(r.run), r.queue.NewTask(r.endStreams)
	d.workers = append(d.workers, r)
	return r
}

// handOver gives the groups of the feeds to which the present round has given news to their workers. The
// caller holds the mutex of the feeds. Each worker gets all its groups under one lock, so it never sees
// a part of a round.
func (d *Dispatcher) handOver(news []*feed.Feed, position object.Position) {
	for _, f := range news {
		for g := firstGroup(f); g != nil; g = g.sibling {
			if g.watches > 0 {
				g.rounds.next = append(g.rounds.next, g)
			}
		}
	}
	for _, r := range d.workers {
		if len(r.next) > 0 || r.watches > 0 {
			r.handOver(position, r.next)
			clear(r.next)
			r.next = r.next[:0]
		}
	}
}

// handOver gives the groups of a round, which ends at the position, to the worker. A round
// without groups wakes the worker only if a stream waits for it.
func (r *workerRounds) handOver(position object.Position, groups []*group) {
	r.mu.Lock()
	r.position = position
	r.addLocked(groups)
	wake := len(groups) > 0 || r.awaited
	r.awaited = false
	r.mu.Unlock()
	if wake {
		r.task.Ready()
	}
}

// add makes the worker run the group again.
func (r *workerRounds) add(g *group) {
	r.mu.Lock()
	r.addLocked([]*group{g})
	r.mu.Unlock()
	r.task.Ready()
}

// addLocked makes the worker run the groups, in the order of the list and each of them once.
func (r *workerRounds) addLocked(groups []*group) {
	for _, g := range groups {
		if !g.listed {
			g.listed = true
			r.groups = append(r.groups, g)
		}
	}
}

// run marks the cursors of streams whose feeds have new events, and then runs the groups that
// have new events. The worker then serves its other queues, even if there are new events
// already. These queues include those of the streams. So a stream is served when all its cursors
// are marked.
func (r *workerRounds) run(now time.Time) {
	groups, position := r.take()
	for _, g := range groups {
		g.mark()
	}
	r.bound = position
	for _, res := range r.waiting {
		res.awaitsBound = false
		res.stream.task.Ready()
	}
	clear(r.waiting)
	r.waiting = r.waiting[:0]
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

// endStreams ends the watches of streams.
func (r *workerRounds) endStreams(time.Time) {
	for res := range r.resources {
		res.endStopped()
	}
}

// take returns the groups with new events and the position of the latest round, and empties the
// list of groups.
func (r *workerRounds) take() ([]*group, object.Position) {
	r.mu.Lock()
	defer r.mu.Unlock()
	taken := r.groups
	r.groups, r.spare = r.spare, nil
	for _, g := range taken {
		g.listed = false
	}
	return taken, r.position
}

// newestBound returns the bound. If no group waits to be marked, it first moves the bound to the
// position of the latest round: a round without events for the worker's groups does not wake it.
func (r *workerRounds) newestBound() object.Position {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.groups) == 0 {
		r.bound = r.position
	}
	return r.bound
}

// awaitBound makes the stream run again when there is a later bound.
func (r *workerRounds) awaitBound(res *streamResource) {
	if res.awaitsBound {
		return
	}
	res.awaitsBound = true
	r.waiting = append(r.waiting, res)
	r.mu.Lock()
	late := r.bound != r.position
	r.awaited = r.awaited || !late
	r.mu.Unlock()
	if late {
		r.task.Ready()
	}
}

// idle reports whether nothing waits for the worker besides the group that it runs.
func (r *workerRounds) idle() bool { return r.left == 0 && r.queue.Idle() }
