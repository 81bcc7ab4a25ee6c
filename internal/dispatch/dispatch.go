package dispatch

import (
	"context"
	"errors"
	"hash/maphash"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/object"
)

// ErrStopped says that the dispatcher has stopped and no more events come from
// it. The watcher ends; its position is good elsewhere.
var ErrStopped = errors.New("dispatch has stopped")

// Source is where the changes come from: the cacher of the resource.
type Source interface {
	// State returns the newest state, or nil while there is none.
	State() *cacher.State
	// Ready returns a channel that is closed when there is a state.
	Ready() <-chan struct{}
	// Following reports whether the state keeps up with the store.
	Following() bool
	// Advance has the position of the state follow that of the store soon, though
	// nothing changes.
	Advance()
}

// Encoder makes the bytes that are sent for an event.
type Encoder interface {
	// AppendEvent appends the event as it looks in the view, and returns the
	// extended slice.
	AppendEvent(b []byte, e object.Event, v object.Projection) []byte
	// AddedEvent returns the event that o was added. The bytes may be shared by
	// everyone and never change.
	AddedEvent(o *object.Object, v object.Projection) []byte
}

// Config says how to dispatch. Source and Encoder are required.
type Config struct {
	Source  Source
	Encoder Encoder

	// MessageBytes is the size of the events in one message, unless one event or
	// one revision is larger. Default 1 MiB: a quarter of what gRPC clients
	// accept by default, so that a message with one more large event still passes.
	MessageBytes int

	// FeedBytes bounds the memory of the logs of all feeds together. What falls
	// out of them is read from the window. Default 64 MiB.
	FeedBytes int

	// CatchUpBytes bounds the memory of what watchers who catch up at the same
	// time share. What finds no room in it is made for each of them. Default
	// 64 MiB.
	CatchUpBytes int

	// CatchUpStates is how many states, each of which may be as large as the
	// present one and its window, are kept at most for watchers whose catch-up
	// takes several messages. Default 4.
	CatchUpStates int

	// Indexed are the indexes of fields in [object.Object.Fields] by which the
	// feeds that a change concerns are found, besides labels.
	Indexed []int

	// Observer is told what becomes of changes. Default: nobody is.
	Observer Observer
}

// Dispatcher brings the changes of one resource to its watchers.
type Dispatcher struct {
	cfg     Config
	wakers  []*waker
	through atomic.Pointer[object.Position] // all changes up to it are in the feeds they concern; nil: none yet
	began   time.Time                       // from which the log counts arrivals
	stopped chan struct{}                   // closed when Run has ended
	shard   atomic.Uint32                   // spreads watchers over wakers
	memos   memoBudget
	pins    pins
	stats   stats

	mu       sync.Mutex            // guards everything below, and what feed says
	position object.Position       // as through, with its epoch; zero before the first state
	feeds    map[interestKey]*feed // those with watchers
	index    index                 // the same
	keeping  map[*feed]struct{}    // those that may have a memo
	swept    time.Time             // when what is kept for catch-ups was last gone through
	budget   budget
	hashes   maphash.Seed // for keys
	scratch  []byte       // for encoding
	touched  []*feed      // that the present round has to publish
}

// New returns a dispatcher that does nothing until it is run.
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
		began:   time.Now(),
		stopped: make(chan struct{}),
		feeds:   map[interestKey]*feed{},
		index:   newIndex(cfg.Indexed),
		keeping: map[*feed]struct{}{},
		hashes:  maphash.MakeSeed(),
	}
	d.memos.limit = int64(cfg.CatchUpBytes)
	d.pins.limit = cfg.CatchUpStates
	d.budget = budget{limit: cfg.FeedBytes, touch: d.touch}
	for range runtime.GOMAXPROCS(0) {
		d.wakers = append(d.wakers, newWaker())
	}
	return d
}

// Run dispatches until ctx is done. It returns when all its goroutines have
// ended; watchers then get [ErrStopped].
func (d *Dispatcher) Run(ctx context.Context) {
	defer close(d.stopped)
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	for _, k := range d.wakers {
		wg.Go(func() { k.run(ctx) })
	}
	select {
	case <-d.cfg.Source.Ready():
	case <-ctx.Done():
		return
	}
	for {
		s := d.cfg.Source.State()
		d.offer(s)
		select {
		case <-s.Superseded():
		case <-ctx.Done():
			return
		}
	}
}

// offer gives the feeds what happened up to the state.
func (d *Dispatcher) offer(s *cacher.State) {
	d.mu.Lock()
	defer d.mu.Unlock()
	round := d.observe(s)
	changes, ok := s.Changes(d.position.Revision)
	if !ok || s.Position().Epoch != d.position.Epoch {
		// The window has moved past us, or this is another history. The logs
		// cannot be continued; they begin anew and their readers find out.
		for _, f := range d.feeds {
			d.touch(f)
			f.restart(s.Position())
		}
	} else {
		if s.Relisted() > d.position.Revision {
			// Nobody knows whom the events that are lost would have concerned.
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
	// Readers load through first and the view after it, so it must be stored
	// after the views: what it promises they then see.
	d.position = s.Position()
	d.through.Store(new(d.position))
	d.stats.logBytes.Store(int64(d.budget.bytes))
	d.stats.evictions.Store(d.budget.evicted)
	round.tell()
	d.sweep(s)
	for i, f := range d.touched {
		for n := range f.shards {
			d.wakers[n].enqueue(&f.shards[n])
		}
		for _, c := range f.cohorts {
			c.wake()
		}
		d.touched[i] = nil
	}
	d.touched = d.touched[:0]
}

// sweep drops what is kept for catch-ups and out of date, now and then. It is called
// with the mutex held.
func (d *Dispatcher) sweep(newest *cacher.State) {
	if time.Since(d.swept) < memoAge {
		return
	}
	d.swept = time.Now()
	d.pins.expire()
	for f := range d.keeping {
		if f.memo.expire(newest, &d.memos) {
			delete(d.keeping, f)
		}
	}
}

// appendTo shows a change to a feed: filtered once, encoded once. It reports whether
// there is an event.
func (d *Dispatcher) appendTo(f *feed, c *object.Change, arrived time.Time) bool {
	e, ok := f.interest.See(c)
	if !ok {
		return false
	}
	d.scratch = d.cfg.Encoder.AppendEvent(d.scratch[:0], e, f.interest.Projection)
	d.touch(f)
	key := uint32(maphash.String(d.hashes, string(c.Key)))
	f.append(entry{at: c.Revision, key: key, arrived: arrived.Sub(d.began)}, d.scratch)
	d.stats.events.Add(1)
	d.stats.eventBytes.Add(int64(len(d.scratch)))
	return true
}

// touch has a feed published when the present round is over.
func (d *Dispatcher) touch(f *feed) {
	if !f.dirty {
		f.dirty = true
		d.touched = append(d.touched, f)
	}
}

// Watch registers a watcher. Every change after the call is covered by it. The
// caller calls Next from one goroutine, and Close when it is done.
func (d *Dispatcher) Watch(i Interest, b Begin, o Options) *Watcher {
	d.mu.Lock()
	f := d.feeds[i.key()]
	if f == nil {
		f = newFeed(i, d.position, len(d.wakers), &d.budget)
		d.feeds[i.key()] = f
		d.index.add(f)
		d.stats.interests.Store(int64(len(d.feeds)))
	}
	if f.watchers++; f.watchers > 1 {
		f.shared.Store(true)
	}
	var c *cohort
	if o.Follower != nil && o.BatchDelay == 0 {
		c = d.cohortOf(f, o.Follower.Task().Queue()) // who holds events back is told nothing when others are
	}
	d.mu.Unlock()

	n := int(d.shard.Add(1)) % len(d.wakers)
	clock := newClock(&o)
	w := &Watcher{
		dispatcher: d,
		feed:       f,
		latest:     o.Latest,
		everyEvent: o.EveryEvent,
		clock:      clock,
		timed:      clock.listens(),
		follower:   o.Follower,
		shard:      &f.shards[n],
		cohort:     c,
		slot:       -1,
		step:       b.first,
		epoch:      b.at.Epoch,
		cursor:     b.at.Revision,
		needed:     b.needed,
		exact:      b.exact,
	}
	if o.Follower != nil {
		w.wake = o.Follower.Task().Ready
	} else {
		w.woken = make(chan struct{}, 1)
		w.wake = func() {
			select {
			case w.woken <- struct{}{}:
			default: // was woken already
			}
		}
	}
	return w
}

// keep has the memo of a feed dropped when it is out of date, and looks after those of
// the others: while nothing happens nobody else does.
func (d *Dispatcher) keep(f *feed) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.keeping[f] = struct{}{}
	d.sweep(d.cfg.Source.State())
}

// leave forgets a watcher, and with the last one the feed.
func (d *Dispatcher) leave(w *Watcher) {
	if w.cohort != nil {
		w.cohort.leave(w)
	} else {
		w.shard.leave(w)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	f := w.feed
	if f.watchers--; f.watchers == 0 {
		delete(d.feeds, f.interest.key())
		d.index.remove(f)
		f.forget()
		f.memo.drop(&d.memos)
		delete(d.keeping, f)
		d.stats.interests.Store(int64(len(d.feeds)))
		d.stats.logBytes.Store(int64(d.budget.bytes))
	}
}

// Decides reports whether the dispatcher finds an interest without looking at its
// selector with the changes that it does not pick. All others cost something with
// each change of their scope.
func (d *Dispatcher) Decides(i *Interest) bool { return d.index.decides(i) }
