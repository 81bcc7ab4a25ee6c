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

// ErrStopped says that the dispatcher has stopped and sends no more events. The watch ends;
// its position remains valid at other servers.
var ErrStopped = errors.New("dispatch has stopped")

// Source is the cacher of the resource, where the changes come from.
type Source interface {
	// State returns the newest state, or nil before the first one.
	State() *cacher.State
	// Ready returns a channel that is closed when there is a state.
	Ready() <-chan struct{}
	// Following reports whether the state keeps up with the store.
	Following() bool
	// Advance asks the store for its revision, so that the position of the state
	// advances although nothing changes.
	Advance()
}

// Encoder encodes events.
type Encoder interface {
	// AppendEvent appends the event as the projection shows it, and returns the extended
	// slice.
	AppendEvent(b []byte, e object.Event, p object.Projection) []byte
	// AddedEvent returns the event that o was added. The bytes may be shared and must not
	// be modified.
	AddedEvent(o *object.Object, p object.Projection) []byte
}

// Config configures a dispatcher. Source and Encoder are required.
type Config struct {
	Source  Source
	Encoder Encoder

	// MessageBytes limits the size of the events in one message. A larger event gets a
	// message of its own. Default 1 MiB: well below the 4 MiB that gRPC clients accept by
	// default, so a larger event also passes.
	MessageBytes int

	// FeedBytes limits the memory of all logs together. Watchers read older events from
	// the cacher's window. Default 64 MiB.
	FeedBytes int

	// CatchUpBytes limits the memory of the catch-up parts that watchers share. Parts that
	// do not fit are made for each watcher. Default 64 MiB.
	CatchUpBytes int

	// CatchUpStates limits how many past states are retained for catch-ups of several
	// messages. Each may be as large as the present state and its window. Default 4.
	CatchUpStates int

	// Indexed lists positions in [object.Object.Fields]. Feeds are indexed by the values of
	// these fields, and by labels.
	Indexed []int

	// Observer watches changes on their way. Optional.
	Observer Observer
}

// Dispatcher delivers the changes of one resource to its watchers.
type Dispatcher struct {
	cfg      Config
	through  atomic.Pointer[object.Position] // all changes up to it are in the feeds they concern; nil: none yet
	created  time.Time                       // entry.arrived is relative to it
	stopped  chan struct{}                   // closed when Run has returned
	catchUps catchUpBudget
	retained retainedStates
	stats    counters

	mu       sync.Mutex            // guards everything below, and the fields of feed that say so
	position object.Position       // the value of through, for holders of mu; zero before the first state
	feeds    map[interestKey]*feed // the feeds that have watchers
	index    index                 // of the same feeds
	caching  map[*feed]struct{}    // feeds whose catchUpCache may hold something
	swept    time.Time             // last sweep
	logs     logBudget
	hashes   maphash.Seed // for keys of objects
	scratch  []byte       // for encoding
	touched  []*feed      // feeds that the current round has to publish
}

// New returns a dispatcher. It does nothing until Run is called.
func New(cfg Config) *Dispatcher {
	if cfg.MessageBytes == 0 {
		cfg.MessageBytes = 1 << 20
	}
	if cfg.FeedBytes == 0 {
		cfg.FeedBytes = 64 << 20
	}
	if cfg.CatchUpBytes == 0 {
		cfg.CatchUpBytes = 64 << 20
	}
	if cfg.CatchUpStates == 0 {
		cfg.CatchUpStates = 4
	}
	d := &Dispatcher{
		cfg:     cfg,
		created: time.Now(),
		stopped: make(chan struct{}),
		feeds:   map[interestKey]*feed{},
		index:   newIndex(cfg.Indexed),
		caching: map[*feed]struct{}{},
		hashes:  maphash.MakeSeed(),
	}
	d.catchUps.limit = int64(cfg.CatchUpBytes)
	d.retained.limit = cfg.CatchUpStates
	d.logs = logBudget{limit: cfg.FeedBytes, touch: d.touch}
	return d
}

// Run dispatches until ctx is done. Watchers then end with [ErrStopped].
func (d *Dispatcher) Run(ctx context.Context) {
	defer close(d.stopped)
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

// idleSweepInterval is the interval of sweeps while nothing changes.
const idleSweepInterval = 10 * time.Second

// awaitChange waits until there is a newer state or ctx is done. It sweeps meanwhile, because
// without changes there are no rounds that do.
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
			d.mu.Unlock()
		}
	}
}

// dispatch runs one round: it appends all changes up to the state to the feeds. It calls the
// observer afterwards, so that no watcher waits for it.
func (d *Dispatcher) dispatch(s *cacher.State) { d.appendAll(s).report() }

func (d *Dispatcher) appendAll(s *cacher.State) *round {
	d.mu.Lock()
	defer d.mu.Unlock()
	round := d.observe(s)
	changes, ok := s.Changes(d.position.Revision)
	if !ok || s.Position().Epoch != d.position.Epoch {
		// The window no longer reaches back to our position, or the epoch has changed.
		// Each log restarts empty at the new position. Watchers notice that the log does
		// not reach back to their cursor.
		for _, f := range d.feeds {
			d.touch(f)
			f.restart(s.Position())
		}
	} else {
		if s.Relisted() > d.position.Revision {
			// The relist lost events. Any feed may have missed some, so all groups are
			// woken: watchers with Options.EveryEvent have to notice the relist.
			for _, f := range d.feeds {
				d.touch(f)
			}
		}
		for c, arrived := range changes {
			round.change(c, arrived)
			for f := range d.index.concerned(c) {
				if d.appendTo(f, c, arrived) {
					round.event(f)
				}
			}
		}
	}
	for _, f := range d.touched {
		f.publish()
	}
	// Readers load through first and the view afterwards. So through is stored after the
	// views: a reader sees everything that through promises.
	d.position = s.Position()
	d.through.Store(new(d.position))
	d.stats.logBytes.Store(int64(d.logs.bytes))
	d.stats.evictions.Store(d.logs.evicted)
	round.end()
	d.sweep(s)
	for i, f := range d.touched {
		for _, g := range f.groups {
			g.wake()
		}
		d.touched[i] = nil
	}
	d.touched = d.touched[:0]
	return round
}

// sweep occasionally drops outdated memory of catch-ups. The caller holds the mutex.
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

// appendTo filters and encodes a change for a feed, and appends the event to its log. It
// reports whether there is an event.
func (d *Dispatcher) appendTo(f *feed, c *object.Change, arrived time.Time) bool {
	e, ok := f.interest.See(c)
	if !ok {
		return false
	}
	d.scratch = d.cfg.Encoder.AppendEvent(d.scratch[:0], e, f.interest.Projection)
	d.touch(f)
	key := uint32(maphash.String(d.hashes, string(c.Key)))
	f.append(entry{revision: c.Revision, key: key, arrived: arrived.Sub(d.created)}, d.scratch)
	d.stats.events.Add(1)
	d.stats.eventBytes.Add(int64(len(d.scratch)))
	return true
}

// touch makes the current round publish a feed when it ends.
func (d *Dispatcher) touch(f *feed) {
	if !f.dirty {
		f.dirty = true
		d.touched = append(d.touched, f)
	}
}

// Watch registers a watcher that delivers to the sink. The watcher misses no change after
// the call. The worker of the queue sends the live events; watchers of one connection should
// share a queue. The caller calls [Watcher.Serve] and finally [Watcher.Close].
func (d *Dispatcher) Watch(i Interest, b Begin, o Options, q *sendqueue.Queue, s Sink) *Watcher {
	d.mu.Lock()
	f := d.feeds[i.key()]
	if f == nil {
		f = newFeed(i, d.position, &d.logs)
		d.feeds[i.key()] = f
		d.index.add(f)
		d.stats.interests.Store(int64(len(d.feeds)))
	}
	if f.watchers++; f.watchers > 1 {
		f.shared.Store(true)
	}
	g := d.groupOf(f, q)
	d.mu.Unlock()

	w := &Watcher{
		dispatcher: d,
		feed:       f,
		sink:       s,
		group:      g,
		slot:       -1,
		latest:     o.Latest,
		everyEvent: o.EveryEvent,
		step:       firstStep[b.Kind],
		epoch:      b.Position.Epoch,
		cursor:     b.Position.Revision,
		needed:     b.Needed,
		exact:      b.Exact,
	}
	w.task = q.NewTask(w.run)
	w.clock = newClock(&o, w)
	w.timed = w.clock.needsEveryMessage()
	return w
}

// remember registers that a feed caches parts of catch-ups, and sweeps.
func (d *Dispatcher) remember(f *feed) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.caching[f] = struct{}{}
	d.sweep(d.cfg.Source.State())
}

// leave removes a watcher, and the feed with its last one.
func (d *Dispatcher) leave(w *Watcher) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f := w.feed
	if f.watchers--; f.watchers == 0 {
		delete(d.feeds, f.interest.key())
		d.index.remove(f)
		f.forget()
		f.catchUps.drop(&d.catchUps)
		delete(d.caching, f)
		d.stats.interests.Store(int64(len(d.feeds)))
		d.stats.logBytes.Store(int64(d.logs.bytes))
	}
}

// Decides reports whether the index alone decides which changes concern an interest. The
// selector of any other interest is evaluated for each change that the index yields, at worst
// for each change in its scope.
func (d *Dispatcher) Decides(i *Interest) bool { return d.index.decides(i) }
