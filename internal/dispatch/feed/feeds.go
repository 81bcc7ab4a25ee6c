package feed

import (
	"cmp"
	"context"
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/dispatch/parts"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/work"
)

// Feeds has the feeds of one resource. Each change is appended to the feeds that it concerns, in
// rounds.
type Feeds struct {
	Config         Config                                       // with the defaults
	handOver       func(news []*Feed, position object.Position) // called at the end of a round, with mu held
	DispatchedUpTo atomic.Pointer[object.Position]              // all changes up to this position are in the feeds that they concern; zero before the first state
	Created        time.Time                                    // arrival times in logs count from here
	CatchUps       parts.Budget
	Retained       parts.RetainedStates
	stats          counters

	mu          sync.Mutex         // guards everything below, and some fields of feed
	index       index              // the feeds that have watches
	empty       *View              // the log of feeds that have begun at the latest position
	caching     map[*Feed]struct{} // feeds whose cache of parts may have content
	swept       time.Time          // when the caches were last swept
	aged        time.Time          // when old segments were last dropped
	logs        logBudget
	hashes      maphash.Seed // seed for the hashes of keys
	scratch     []byte       // memory in which events are encoded
	unpublished []*Feed      // feeds that the current round has to publish
}

// NewFeeds returns no feeds. Nothing is appended to a feed until Run is called. The function handOver
// gets the feeds with new events at the end of each round. It must not wait.
func NewFeeds(cfg Config, handOver func(news []*Feed, position object.Position)) *Feeds {
	cfg.MessageBytes = cmp.Or(cfg.MessageBytes, 1<<20)
	cfg.LogBytes = cmp.Or(cfg.LogBytes, 64<<20)
	cfg.LogAge = cmp.Or(cfg.LogAge, time.Minute)
	cfg.CatchUpBytes = cmp.Or(cfg.CatchUpBytes, 64<<20)
	cfg.CatchUpStates = cmp.Or(cfg.CatchUpStates, 4)
	if cfg.Turns == nil {
		cfg.Turns = work.NewTurns()
	}
	fs := &Feeds{
		Config:   cfg,
		handOver: handOver,
		Created:  time.Now(),
		index:    newIndex(cfg.Indexed),
		empty:    &View{},
		caching:  map[*Feed]struct{}{},
		hashes:   maphash.MakeSeed(),
	}
	fs.DispatchedUpTo.Store(&object.Position{})
	fs.CatchUps.Limit = int64(cfg.CatchUpBytes)
	fs.Retained.Limit = cfg.CatchUpStates
	fs.logs = logBudget{limit: cfg.LogBytes, publishLater: fs.publishLater}
	return fs
}

// Run appends changes to the feeds until ctx is done.
func (fs *Feeds) Run(ctx context.Context) {
	select {
	case <-fs.Config.Source.Ready():
	case <-ctx.Done():
		return
	}
	idle := time.NewTicker(idleSweepInterval)
	defer idle.Stop()
	for ctx.Err() == nil {
		s := fs.Config.Source.State()
		fs.dispatch(s)
		fs.awaitChange(ctx, s, idle.C)
	}
}

// idleSweepInterval is the interval of sweeps while nothing changes.
const idleSweepInterval = 10 * time.Second

// awaitChange waits until there is a newer state or ctx is done. Each round ends with a
// sweep. While nothing changes there are no rounds, so awaitChange sweeps at intervals.
func (fs *Feeds) awaitChange(ctx context.Context, s *cacher.State, idle <-chan time.Time) {
	for {
		select {
		case <-s.Superseded():
			return
		case <-ctx.Done():
			return
		case <-idle:
			fs.mu.Lock()
			fs.sweep(s)
			fs.ageLogs()
			fs.mu.Unlock()
		}
	}
}

// dispatch runs one round: it appends all changes up to the state to the feeds. The reports to
// the observer come last, so no watch waits for the observer.
func (fs *Feeds) dispatch(s *cacher.State) {
	r := fs.beginRound(s)
	ended := fs.appendAll(s, r)
	r.report(fs.Config.Observer, ended)
}

// appendAll returns when watches could read the changes.
func (fs *Feeds) appendAll(s *cacher.State, r *roundReports) (ended time.Time) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.dropOldSegments()
	before, now := *fs.DispatchedUpTo.Load(), s.Position()
	changes, ok := s.Changes(before.Revision)
	if !ok || now.Epoch != before.Epoch {
		// Changes after the last round are lost, or the epoch has changed. Each log restarts
		// empty at the new position. A cursor notices this when the log does not reach back
		// to it.
		for f := range fs.index.all() {
			fs.publishLater(f)
			f.restart(before, now)
		}
	} else {
		for c, arrived := range changes {
			r.change(c, arrived)
			for f := range fs.index.concerned(c) {
				if fs.appendTo(f, c, arrived) {
					r.event(f)
				}
			}
		}
	}
	fs.publishAll()
	// The order matters: publish the views, then store DispatchedUpTo. Readers load
	// DispatchedUpTo before the view, so their view has every event up to that position.
	fs.DispatchedUpTo.Store(&now)
	fs.stats.logBytes.Store(int64(fs.logs.bytes))
	fs.stats.evictions.Store(fs.logs.evicted)
	ended = time.Now()
	fs.sweep(s)
	news := fs.takeNews()
	fs.handOver(news, now)
	clear(news) // feeds without watches must not stay in memory
	return ended
}

// sweep drops outdated states and parts of catch-ups, at most once per parts.CacheAge. The
// caller holds the mutex.
func (fs *Feeds) sweep(newest *cacher.State) {
	if time.Since(fs.swept) < parts.CacheAge {
		return
	}
	fs.swept = time.Now()
	fs.Retained.Expire()
	for f := range fs.caching {
		if f.CatchUps.Expire(newest, &fs.CatchUps) {
			delete(fs.caching, f)
		}
	}
}

// appendTo filters and encodes a change for a feed, and appends the event to the log of the
// feed. It reports whether the change causes an event for the feed.
func (fs *Feeds) appendTo(f *Feed, c *object.Change, arrived time.Time) bool {
	e, ok := f.Interest.See(c)
	if !ok {
		return false
	}
	fs.scratch = fs.Config.Encoder.AppendEvent(fs.scratch[:0], e, f.Interest.Projection)
	fs.publishLater(f)
	key := uint32(maphash.String(fs.hashes, string(c.Key)))
	f.append(entry{revision: c.Revision, key: key, Arrived: arrived.Sub(fs.Created)}, fs.scratch)
	fs.stats.events.Add(1)
	fs.stats.eventBytes.Add(int64(len(fs.scratch)))
	return true
}

// publishLater makes the current round publish a feed.
func (fs *Feeds) publishLater(f *Feed) {
	if f.next == nil {
		f.edit()
		fs.unpublished = append(fs.unpublished, f)
	}
}

// Enter adds a watch to the feed of the interest, so that the watch misses no change that comes after
// the call. It calls a function with the feed and the position of the latest round before the next one
// begins.
func (fs *Feeds) Enter(i *Interest, entered func(f *Feed, position object.Position)) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	position := *fs.DispatchedUpTo.Load()
	f := fs.index.find(i)
	if f == nil {
		if fs.empty.base != position {
			fs.empty = &View{base: position}
		}
		f = &Feed{Feeds: fs, Interest: *i}
		f.View.Store(fs.empty)
		fs.index.add(f)
		fs.stats.interests.Store(int64(fs.index.size))
	}
	if f.watches++; f.watches == 2 {
		f.hadSeveral.Store(true)
	}
	entered(f, position)
}

// Remember registers a feed whose cache of parts has content, so that sweeps look at the cache.
// It also sweeps.
func (fs *Feeds) Remember(f *Feed) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.caching[f] = struct{}{}
	fs.sweep(fs.Config.Source.State())
}

// Exit removes watches from a feed, and calls a function before the next round begins. If the watches
// were the last ones of the feed, Exit removes the feed, too.
func (fs *Feeds) Exit(f *Feed, watches int, exited func()) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	exited()
	if f.watches -= watches; f.watches == 0 {
		fs.index.remove(f)
		f.forget()
		f.CatchUps.Empty(&fs.CatchUps)
		delete(fs.caching, f)
		fs.stats.interests.Store(int64(fs.index.size))
		fs.stats.logBytes.Store(int64(fs.logs.bytes))
	}
}

// Locked calls a function between two rounds.
func (fs *Feeds) Locked(do func()) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	do()
}

// takeNews empties the list of the feeds that the round has published, and returns those with news. The
// others have only lost old segments: no watch reads anything because of that. The result is valid until
// the next round.
func (fs *Feeds) takeNews() []*Feed {
	news := slices.DeleteFunc(fs.unpublished, func(f *Feed) bool {
		had := f.hasNews
		f.hasNews = false
		return !had
	})
	fs.unpublished = fs.unpublished[:0]
	return news
}

// publishAll publishes the feeds whose logs have changed.
func (fs *Feeds) publishAll() {
	for _, f := range fs.unpublished {
		f.publish()
	}
}
