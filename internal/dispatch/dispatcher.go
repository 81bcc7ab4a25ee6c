package dispatch

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/sendqueue"
)

// ErrStopped means that the dispatcher has stopped and sends no more events. The watch ends.
// Its position remains valid at other servers.
var ErrStopped = errors.New("dispatch has stopped")

// Dispatcher delivers the changes of one resource to its watches.
type Dispatcher struct {
	feeds   *feed.Feeds
	stopped atomic.Bool     // Run has returned
	workers []*workerRounds // guarded by the mutex of the feeds
}

// New returns a dispatcher. It does nothing until Run is called.
func New(cfg feed.Config) *Dispatcher {
	d := &Dispatcher{}
	d.feeds = feed.NewFeeds(cfg, d.handOver)
	return d
}

// Run dispatches changes until ctx is done. Watches then end with [ErrStopped].
func (d *Dispatcher) Run(ctx context.Context) {
	defer d.stop()
	d.feeds.Run(ctx)
}

// stop ends all watches.
func (d *Dispatcher) stop() {
	d.feeds.Locked(func() {
		d.stopped.Store(true)
		for _, r := range d.workers {
			r.ending.Ready()
		}
	})
}

// enter adds a watch to the feed of the interest, so that the watch misses no change that comes after
// the call. It returns the group of the feed for the worker of the queue.
func (d *Dispatcher) enter(i *feed.Interest, q *sendqueue.Queue) (g *group) {
	d.feeds.Enter(i, func(f *feed.Feed, position object.Position) {
		g = d.groupOf(f, q)
		g.rounds.watches++
		if g.watches++; g.watches == 1 {
			// The worker does not have the group from the latest round, or an earlier one, because
			// the group had no watch then. Without watches, it does not even have the position.
			g.rounds.handOver(position, []*group{g})
		}
	})
	return g
}

// exit removes watches that enter has added.
func (d *Dispatcher) exit(g *group, watches int) {
	d.feeds.Exit(g.feed, watches, func() {
		g.watches -= watches
		g.rounds.watches -= watches
	})
}

// Stats returns the current values. It does not wait for the dispatcher.
func (d *Dispatcher) Stats() feed.Stats { return d.feeds.Stats() }

// Interests returns the number of distinct interests that are watched.
func (d *Dispatcher) Interests() int { return d.feeds.Stats().Interests }

// IndexDecides is [feed.Feeds.IndexDecides].
func (d *Dispatcher) IndexDecides(i *feed.Interest) bool { return d.feeds.IndexDecides(i) }
