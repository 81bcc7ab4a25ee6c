package dispatch

import (
	"context"
	"errors"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/sendqueue"
)

// ErrStopped means that the dispatcher has stopped and sends no more events. The watch ends.
// Its position remains valid at other servers.
var ErrStopped = errors.New("dispatch has stopped")

// Source is the cacher of the resource, from which the changes come.
type Source interface {
	// State returns the newest state, or nil before the first one.
	State() *cacher.State
	// Ready returns a channel that is closed when there is a state.
	Ready() <-chan struct{}
	// Following reports whether the state keeps up with the store.
	Following() bool
	// Confirmed returns a time at which the state had everything that the store had.
	Confirmed() time.Time
	// Advance asks the store for its revision, so that the position of the state advances
	// even if nothing changes.
	Advance()
}

// Encoder encodes events.
type Encoder interface {
	// AppendEvent appends the event as the projection shows it, and returns the extended
	// slice.
	AppendEvent(b []byte, e object.Event, p object.Projection) []byte
	// AddedEvent returns the encoded ADDED event of an object. The bytes may be shared and
	// must not be modified.
	AddedEvent(o *object.Object, p object.Projection) []byte
}

// Config configures a dispatcher. Source and Encoder are required.
type Config struct {
	Source  Source
	Encoder Encoder

	// MessageBytes limits the size of the events in one message. An event above the limit
	// gets a message of its own. Default 1 MiB. By default, gRPC clients accept messages of
	// up to 4 MiB, so an event above the limit usually reaches them, too.
	MessageBytes int

	// LogBytes limits the memory of the logs of all feeds together. Watchers read older
	// events from the cacher's window. Default 64 MiB.
	LogBytes int

	// LogAge is how long the logs keep events. Watchers read older events from the cacher's
	// window. Default 1 min.
	LogAge time.Duration

	// CatchUpBytes limits the memory of the catch-up parts that watchers share. A part that
	// does not fit is made again for each watcher. Default 64 MiB.
	CatchUpBytes int

	// CatchUpStates limits how many past states are retained for catch-ups of several
	// messages. Each may be as large as the present state with its window. Default 4.
	CatchUpStates int

	// Turns limit how many parts of catch-ups are made at once. Default: turns of this
	// dispatcher alone.
	Turns Turns

	// Indexed lists fields, as indices of [object.Object.Fields]. The dispatcher indexes feeds
	// by the values that they require of these fields. It always indexes by labels.
	Indexed []int

	// Observer gets reports about dispatched changes. Optional.
	Observer Observer
}

// Dispatcher delivers the changes of one resource to its watchers.
type Dispatcher struct {
	cfg            Config
	dispatchedUpTo atomic.Pointer[object.Position] // all changes up to this position are in the feeds that they concern; nil: none yet
	created        time.Time                       // entry.arrived counts from here
	stopped        chan struct{}                   // closed when Run has returned
	catchUps       catchUpBudget
	retained       retainedStates
	stats          counters

	mu          sync.Mutex         // guards everything below, and some fields of feed
	position    object.Position    // same as dispatchedUpTo, but not atomic; zero before the first state
	index       index              // the feeds that have watches
	empty       *view              // the log of feeds that have begun at the latest position
	caching     map[*feed]struct{} // feeds whose catchUpCache may have content
	swept       time.Time          // when the caches were last swept
	aged        time.Time          // when old segments were last dropped
	logs        logBudget
	hashes      maphash.Seed // seed for the hashes of keys
	scratch     []byte       // memory in which events are encoded
	unpublished []*feed      // feeds that the current round has to publish
	workers     []*workerRounds
}

// New returns a dispatcher. It does nothing until Run is called.
func New(cfg Config) *Dispatcher {
	if cfg.MessageBytes == 0 {
		cfg.MessageBytes = 1 << 20
	}
	if cfg.LogBytes == 0 {
		cfg.LogBytes = 64 << 20
	}
	if cfg.LogAge == 0 {
		cfg.LogAge = time.Minute
	}
	if cfg.CatchUpBytes == 0 {
		cfg.CatchUpBytes = 64 << 20
	}
	if cfg.CatchUpStates == 0 {
		cfg.CatchUpStates = 4
	}
	if cfg.Turns == nil {
		cfg.Turns = NewTurns()
	}
	d := &Dispatcher{
		cfg:     cfg,
		created: time.Now(),
		stopped: make(chan struct{}),
		index:   newIndex(cfg.Indexed),
		empty:   &view{},
		caching: map[*feed]struct{}{},
		hashes:  maphash.MakeSeed(),
	}
	d.catchUps.limit = int64(cfg.CatchUpBytes)
	d.retained.limit = cfg.CatchUpStates
	d.logs = logBudget{limit: cfg.LogBytes, publishLater: d.publishLater}
	return d
}

// Run dispatches changes until ctx is done. Watchers then end with [ErrStopped].
func (d *Dispatcher) Run(ctx context.Context) {
	defer d.stop()
	select {
	case <-d.cfg.Source.Ready():
	case <-ctx.Done():
		return
	}
	idle := time.NewTicker(idleSweepInterval)
	defer idle.Stop()
	for ctx.Err() == nil {
		s := d.cfg.Source.State()
		d.dispatch(s)
		d.awaitChange(ctx, s, idle.C)
	}
}

// stop ends all watches. If each of them waited for stopped itself, a watch would take more memory.
func (d *Dispatcher) stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	close(d.stopped)
	for _, r := range d.workers {
		r.ending.Ready()
	}
}

// hasStopped reports whether Run has returned.
func (d *Dispatcher) hasStopped() bool {
	select {
	case <-d.stopped:
		return true
	default:
		return false
	}
}

// idleSweepInterval is the interval of sweeps while nothing changes.
const idleSweepInterval = 10 * time.Second

// awaitChange waits until there is a newer state or ctx is done. Each round ends with a
// sweep. While nothing changes there are no rounds, so awaitChange sweeps at intervals.
func (d *Dispatcher) awaitChange(ctx context.Context, s *cacher.State, idle <-chan time.Time) {
	for {
		select {
		case <-s.Superseded():
			return
		case <-ctx.Done():
			return
		case <-idle:
			d.mu.Lock()
			d.sweep(s)
			d.ageLogs()
			d.mu.Unlock()
		}
	}
}

// dispatch runs one round: it appends all changes up to the state to the feeds. The reports to
// the observer come last, so no watcher waits for the observer.
func (d *Dispatcher) dispatch(s *cacher.State) {
	r := d.beginRound(s)
	d.appendAll(s, r)
	r.report()
}

func (d *Dispatcher) appendAll(s *cacher.State, r *roundReports) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dropOldSegments()
	changes, ok := s.Changes(d.position.Revision)
	if !ok || s.Position().Epoch != d.position.Epoch {
		// Changes after the last round are lost, or the epoch has changed. Each log restarts
		// empty at the new position. A watcher notices this when the log does not reach back
		// to its cursor.
		for f := range d.index.all() {
			d.publishLater(f)
			f.restart(d.position, s.Position())
		}
	} else {
		for c, arrived := range changes {
			r.change(c, arrived)
			for f := range d.index.concerned(c) {
				if d.appendTo(f, c, arrived) {
					r.event(f)
				}
			}
		}
	}
	d.publishAll()
	// The order matters: publish the views, then store dispatchedUpTo. Readers load
	// dispatchedUpTo before the view, so their view has every event up to that position.
	d.position = s.Position()
	d.dispatchedUpTo.Store(new(d.position))
	d.stats.logBytes.Store(int64(d.logs.bytes))
	d.stats.evictions.Store(d.logs.evicted)
	r.end()
	d.sweep(s)
	d.handOver()
}

// sweep drops outdated states and parts of catch-ups, at most once per catchUpCacheAge. The
// caller holds the mutex.
func (d *Dispatcher) sweep(newest *cacher.State) {
	if time.Since(d.swept) < catchUpCacheAge {
		return
	}
	d.swept = time.Now()
	d.retained.expire()
	for f := range d.caching {
		if f.catchUps.expire(newest, &d.catchUps) {
			delete(d.caching, f)
		}
	}
}

// appendTo filters and encodes a change for a feed, and appends the event to the log of the
// feed. It reports whether the change causes an event for the feed.
func (d *Dispatcher) appendTo(f *feed, c *object.Change, arrived time.Time) bool {
	e, ok := f.interest.See(c)
	if !ok {
		return false
	}
	d.scratch = d.cfg.Encoder.AppendEvent(d.scratch[:0], e, f.interest.Projection)
	d.publishLater(f)
	key := uint32(maphash.String(d.hashes, string(c.Key)))
	f.append(entry{revision: c.Revision, key: key, arrived: arrived.Sub(d.created)}, d.scratch)
	d.stats.events.Add(1)
	d.stats.eventBytes.Add(int64(len(d.scratch)))
	return true
}

// publishLater makes the current round publish a feed and hand its groups to their workers.
func (d *Dispatcher) publishLater(f *feed) {
	if f.next == nil {
		f.edit()
		d.unpublished = append(d.unpublished, f)
	}
}

// join adds a watch to the feed of the interest, and returns the feed. The caller holds the mutex.
func (d *Dispatcher) join(i *Interest) *feed {
	f := d.index.find(i)
	if f == nil {
		if d.empty.base != d.position {
			d.empty = &view{base: d.position}
		}
		f = newFeed(*i, d, d.empty)
		d.index.add(f)
		d.stats.interests.Store(int64(d.index.size))
	}
	if f.watches++; f.watches == 2 {
		f.hadSeveral.Store(true)
	}
	return f
}

// enter adds a watch to the feed of the interest, so that the watch misses no change that comes after
// the call. It returns the group of the feed for the worker of the queue.
func (d *Dispatcher) enter(i *Interest, q *sendqueue.Queue) *group {
	d.mu.Lock()
	defer d.mu.Unlock()
	g := d.groupOf(d.join(i), q)
	g.rounds.watches++
	if g.watches++; g.watches == 1 {
		g.rounds.join(g, d.position)
	}
	return g
}

// exit removes watches that enter has added.
func (d *Dispatcher) exit(g *group, watches int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	g.watches -= watches
	g.rounds.watches -= watches
	d.leave(g.feed, watches)
}

// remember registers a feed whose catchUpCache has content, so that sweeps look at the cache.
// It also sweeps.
func (d *Dispatcher) remember(f *feed) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.caching[f] = struct{}{}
	d.sweep(d.cfg.Source.State())
}

// leave removes watches from a feed. If they were its last, leave removes the feed, too. The caller
// holds the mutex.
func (d *Dispatcher) leave(f *feed, watches int) {
	if f.watches -= watches; f.watches == 0 {
		d.index.remove(f)
		f.forget()
		f.catchUps.empty(&d.catchUps)
		delete(d.caching, f)
		d.stats.interests.Store(int64(d.index.size))
		d.stats.logBytes.Store(int64(d.logs.bytes))
	}
}

// IndexDecides reports whether the index alone decides which changes concern an interest. If
// not, the dispatcher evaluates the selector of the interest for each change that the index
// yields. At worst, these are all changes in the scope of the interest.
func (d *Dispatcher) IndexDecides(i *Interest) bool { return d.index.decides(i) }
