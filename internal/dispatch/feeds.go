package dispatch

import (
	"context"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/object"
)

// feeds has the feeds of one resource. Each change is appended to the feeds that it concerns, in
// rounds.
type feeds struct {
	cfg            Config
	handOver       func(published []*feed, position object.Position) // called at the end of a round, with mu held
	dispatchedUpTo atomic.Pointer[object.Position]                   // all changes up to this position are in the feeds that they concern; nil: none yet
	created        time.Time                                         // entry.arrived counts from here
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
}

// newFeeds returns no feeds. Nothing is appended to a feed until run is called. The function handOver
// gets the feeds with new events at the end of each round. It must not wait.
func newFeeds(cfg Config, handOver func(published []*feed, position object.Position)) *feeds {
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
	d := &feeds{
		cfg:      cfg,
		handOver: handOver,
		created:  time.Now(),
		index:    newIndex(cfg.Indexed),
		empty:    &view{},
		caching:  map[*feed]struct{}{},
		hashes:   maphash.MakeSeed(),
	}
	d.catchUps.limit = int64(cfg.CatchUpBytes)
	d.retained.limit = cfg.CatchUpStates
	d.logs = logBudget{limit: cfg.LogBytes, publishLater: d.publishLater}
	return d
}

// run appends changes to the feeds until ctx is done.
func (d *feeds) run(ctx context.Context) {
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

// awaitChange waits until there is a newer state or ctx is done. Each round ends with a
// sweep. While nothing changes there are no rounds, so awaitChange sweeps at intervals.
func (d *feeds) awaitChange(ctx context.Context, s *cacher.State, idle <-chan time.Time) {
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
func (d *feeds) dispatch(s *cacher.State) {
	r := d.beginRound(s)
	d.appendAll(s, r)
	r.report()
}

func (d *feeds) appendAll(s *cacher.State, r *roundReports) {
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
	d.handOver(d.unpublished, d.position)
	clear(d.unpublished)
	d.unpublished = d.unpublished[:0]
}

// sweep drops outdated states and parts of catch-ups, at most once per catchUpCacheAge. The
// caller holds the mutex.
func (d *feeds) sweep(newest *cacher.State) {
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
func (d *feeds) appendTo(f *feed, c *object.Change, arrived time.Time) bool {
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
func (d *feeds) publishLater(f *feed) {
	if f.next == nil {
		f.edit()
		d.unpublished = append(d.unpublished, f)
	}
}

// enter adds a watch to the feed of the interest, so that the watch misses no change that comes after
// the call. It calls a function with the feed and the position of the latest round before the next one
// begins.
func (d *feeds) enter(i *Interest, entered func(f *feed, position object.Position)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	entered(d.join(i), d.position)
}

// join adds a watch to the feed of the interest, and returns the feed. The caller holds the mutex.
func (d *feeds) join(i *Interest) *feed {
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

// remember registers a feed whose catchUpCache has content, so that sweeps look at the cache.
// It also sweeps.
func (d *feeds) remember(f *feed) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.caching[f] = struct{}{}
	d.sweep(d.cfg.Source.State())
}

// exit removes watches from a feed, and calls a function before the next round begins. If the watches
// were the last ones of the feed, exit removes the feed, too.
func (d *feeds) exit(f *feed, watches int, exited func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	exited()
	d.leave(f, watches)
}

// leave removes watches from a feed. If they were its last, leave removes the feed, too. The caller
// holds the mutex.
func (d *feeds) leave(f *feed, watches int) {
	if f.watches -= watches; f.watches == 0 {
		d.index.remove(f)
		f.forget()
		f.catchUps.empty(&d.catchUps)
		delete(d.caching, f)
		d.stats.interests.Store(int64(d.index.size))
		d.stats.logBytes.Store(int64(d.logs.bytes))
	}
}

// indexDecides reports whether the index alone decides which changes concern an interest. If
// not, the dispatcher evaluates the selector of the interest for each change that the index
// yields. At worst, these are all changes in the scope of the interest.
func (d *feeds) indexDecides(i *Interest) bool { return d.index.decides(i) }

// locked calls a function between two rounds.
func (d *feeds) locked(do func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	do()
}
