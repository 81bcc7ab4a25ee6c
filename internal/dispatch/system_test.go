package dispatch_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/sendqueue"
	"github.com/fanoutd/fanoutd/internal/wire"
	"github.com/fanoutd/fanoutd/test/cachertest"
	"github.com/fanoutd/fanoutd/test/check"
)

// chooser makes the decisions of one actor of a random test: a number below n.
type chooser func(what string, n int) int

func pick[T any](c chooser, what string, from ...T) T { return from[c(what, len(from))] }

// often is true n times of ten.
func (c chooser) often(what string, n int) bool { return c(what, 10) < n }

// system is a store and a server in front of it, to which things happen. All its
// methods are for one goroutine, but for server.
type system struct {
	store   *cachertest.Memory
	workers *sendqueue.Workers
	limits  systemLimits
	live    atomic.Pointer[server]
	worlds  []*world // oldest first; the last one is that of the present epoch

	// It is written faster than it is dispatched, and subscribers do not ask how far
	// the store is before they read, so that bookmarks may be old.
	hasty bool
}

type systemLimits struct {
	window     cacher.WindowLimits
	tombstones int
	dispatch   dispatch.Config
}

// server is what a restart replaces.
type server struct {
	cacher     *cacher.Cacher
	dispatcher *dispatch.Dispatcher
	queues     []*sendqueue.Queue
	next       atomic.Uint32
	stop       func()
}

// queue returns the queue of the next watcher. Some watchers share one.
func (s *server) queue() *sendqueue.Queue {
	return s.queues[s.next.Add(1)%uint32(len(s.queues))]
}

// world is what there is to know of the time of one epoch.
type world struct {
	epoch object.Epoch
	check.Conditions
	history [][]object.Record // set when it ends
}

// smallLimits are such that everything has an end all the time.
func smallLimits(c chooser) systemLimits {
	var l systemLimits
	l.window.MinChanges = 3 + c("floor", 12)
	l.window.MaxChanges = l.window.MinChanges + c("ceiling", 20)
	l.window.Freshness = pick(c, "freshness", time.Second, time.Hour)
	l.tombstones = 1 + c("tombstones", 4)
	l.dispatch.MessageBytes = pick(c, "message", 200, 600, 2000)
	l.dispatch.FeedBytes = pick(c, "feeds", 1<<10, 4<<10, 16<<10)
	l.dispatch.CatchUpBytes = pick(c, "catch-ups", 500, 1<<20)
	l.dispatch.CatchUpStates = pick(c, "states", 1, 2, 4)
	return l
}

func newSystem(l systemLimits) *system {
	y := &system{store: cachertest.NewMemory(), workers: sendqueue.Start(2), limits: l, worlds: []*world{{epoch: "e1"}}}
	y.start()
	return y
}

func (y *system) world() *world { return y.worlds[len(y.worlds)-1] }

func (y *system) server() *server { return y.live.Load() }

func (y *system) start() {
	codec, err := object.NewCodec("json", schema)
	if err != nil {
		panic(err)
	}
	s := &server{}
	s.cacher = cacher.New(cacher.Config{
		Resource: "test", Store: y.store, Codec: codec, Preencode: wire.Preencode,
		Window: y.limits.window, MaxTombstones: y.limits.tombstones, Log: slog.New(slog.DiscardHandler),
		// The store is asked only for the sake of bookmarks. Nothing else depends
		// on when the last attempt to reach it was, which is random.
		ProgressInterval: time.Hour,
	})
	cfg := y.limits.dispatch
	cfg.Source, cfg.Encoder, cfg.Indexed = s.cacher, wire.Encoder{}, schema.Indexed()
	s.dispatcher = dispatch.New(cfg)
	for range 5 {
		s.queues = append(s.queues, y.workers.NewQueue())
	}
	caching, stopCacher := context.WithCancel(context.Background())
	dispatching, stopDispatcher := context.WithCancel(context.Background())
	var cachers, dispatchers sync.WaitGroup
	cachers.Go(func() { s.cacher.Run(caching) })
	dispatchers.Go(func() { s.dispatcher.Run(dispatching) })
	s.stop = func() {
		stopDispatcher()
		dispatchers.Wait()
		stopCacher()
		cachers.Wait()
	}
	synctest.Wait() // the dispatcher has taken the first state
	y.live.Store(s)
}

var keys = []object.Key{"a", "a/b", "ab", "a/b/0", "a/b/1", "a/b/2", "a/c", "c/0", "c/1", "c/2", "d"}

// write commits transactions of several keys, of one, of all, and of none: those of
// other resources.
func (y *system) write(c chooser, commits int) {
	for range commits {
		writes := map[object.Key][]byte{}
		switch n := pick(c, "keys", 0, 1, 1, 1, 3, len(keys)); n {
		case len(keys):
			value := content(c)
			for _, key := range keys {
				writes[key] = value
			}
		default:
			for range n {
				key := pick(c, "key", keys...)
				writes[key] = nil
				if !c.often("delete", 3) {
					writes[key] = content(c)
				}
			}
		}
		begun := time.Now()
		at := y.store.Commit(writes)
		w := y.world()
		w.Acknowledged = append(w.Acknowledged, check.Acknowledged{Begun: begun, At: time.Now(), Revision: at})
		if !y.hasty {
			synctest.Wait()
		}
	}
}

func content(c chooser) []byte {
	if c.often("opaque", 1) {
		return []byte("not a document")
	}
	var d document
	d.Color = pick(c, "color", "", "red", "blue")
	d.Spec.Size = pick(c, "size", "", "1", "2")
	d.Padding = strings.Repeat("x", pick(c, "padding", 0, 0, 0, 300))
	if env := pick(c, "env", "", "prod", "test"); env != "" {
		d.Metadata.Labels = map[string]string{"env": env}
		if c.often("tier", 3) {
			d.Metadata.Labels["tier"] = "gold"
		}
	}
	value, err := json.Marshal(d)
	if err != nil {
		panic(err)
	}
	return value
}

// rest lets time pass. Of the times in these tests no two end at the same moment, so
// that what comes first is no matter of luck.
func rest(c chooser) {
	time.Sleep(pick(c, "rest", 1013*time.Microsecond, 21_037*time.Microsecond, 151_059*time.Microsecond, 2_003_071*time.Microsecond))
}

// excuse notes that there was nobody to hear bookmarks from, and what was lost.
func (y *system) excuse(w *world, from time.Time, at, relisted object.Revision) {
	time.Sleep(10 * time.Second) // longer than it takes to try again
	y.settle()
	w.Outages = append(w.Outages, check.Span{From: from, To: time.Now()})
	if now := y.server().cacher.State().Relisted(); now != relisted {
		w.Gaps = append(w.Gaps, check.Gap{After: at, Until: now})
		// A server that is started later does not see it either.
		y.store.Change(func() { y.store.Compacted = max(y.store.Compacted, now) })
	}
}

// settle waits until the server has caught up with the store.
func (y *system) settle() {
	for {
		synctest.Wait()
		s := y.server().cacher
		if s.Following() && s.State().Position() == (object.Position{Epoch: y.world().epoch, Revision: y.store.Now()}) {
			return
		}
		s.Advance()
		time.Sleep(100 * time.Millisecond)
	}
}

// silence is a store that says nothing for a while. It may forget meanwhile.
func (y *system) silence(c chooser) {
	y.settle()
	from, s := time.Now(), y.server().cacher.State()
	y.store.Change(func() { y.store.Quiet = true })
	y.write(c, c("commits", 12))
	rest(c)
	y.forget(c)
	y.store.Change(func() { y.store.Quiet = false })
	y.excuse(y.world(), from, s.Revision(), s.Relisted())
}

// forget compacts the store, now and then.
func (y *system) forget(c chooser) {
	now := y.store.Now()
	if c.often("compact", 7) {
		back := object.Revision(c("back", 3))
		y.store.Change(func() { y.store.Compacted = max(1, now-back, y.store.Compacted) })
	}
}

// outage is a store that is away. It may forget meanwhile.
func (y *system) outage(c chooser) {
	y.settle()
	from, s := time.Now(), y.server().cacher.State()
	y.store.Change(func() { y.store.Down = object.ErrUnavailable })
	y.write(c, c("commits", 6))
	rest(c)
	y.forget(c)
	y.store.Change(func() { y.store.Down = nil })
	y.excuse(y.world(), from, s.Revision(), s.Relisted())
}

// restore is another store in the place of this one.
func (y *system) restore(c chooser) {
	y.settle()
	from, old := time.Now(), y.world()
	y.store.Change(func() { y.store.Down = object.ErrUnavailable })
	synctest.Wait()
	old.history = y.store.History()
	y.worlds = append(y.worlds, &world{epoch: object.Epoch(fmt.Sprint("e", len(y.worlds)+1))})
	y.store.Restart(y.world().epoch)
	y.write(c, c("commits", 30))
	y.store.Change(func() { y.store.Down = nil })
	y.excuse(y.world(), from, 0, 0)
	old.Outages = append(old.Outages, check.Span{From: from, To: time.Now()})
}

// restart is that of the server. It knows of the past what the store does.
func (y *system) restart(c chooser) {
	y.settle()
	from, w := time.Now(), y.world()
	y.server().stop()
	y.write(c, c("commits", 3))
	now := y.store.Now()
	var compacted object.Revision
	y.store.Change(func() { compacted = y.store.Compacted })
	w.Forgotten = append(w.Forgotten, check.Forgotten{
		Since: now, Below: max(1, compacted, now-object.Revision(10*y.limits.window.MaxChanges)),
	})
	y.start()
	y.settle()
	w.Outages = append(w.Outages, check.Span{From: from, To: time.Now()})
}

// end takes the server down. Of all worlds it is known from then on what has
// happened in them.
func (y *system) end() {
	y.server().stop()
	y.workers.Stop()
	y.world().history = y.store.History()
	for _, w := range y.worlds {
		w.Window, w.Tombstones = y.limits.window.MinChanges, y.limits.tombstones
		if !y.hasty {
			w.Patience = patience
		}
	}
}

// patience is how much longer than asked for a silence may be. It is enough for two
// of the longest intervals between bookmarks.
const patience = 2100 * time.Millisecond

// truth returns what the judge has to know of the world.
func (w *world) truth(p *past) (*check.Truth, error) {
	truth, err := check.NewTruth(p.changes, object.Revision(len(w.history)))
	if err != nil {
		return nil, err
	}
	truth.Conditions = w.Conditions
	return truth, nil
}
