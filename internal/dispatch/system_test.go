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
	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/sendqueue"
	"github.com/fanoutd/fanoutd/internal/wire"
	"github.com/fanoutd/fanoutd/test/cachertest"
	"github.com/fanoutd/fanoutd/test/check"
)

// chooser makes the random decisions of one actor. Each is a number below n.
type chooser func(what string, n int) int

func pick[T any](c chooser, what string, from ...T) T { return from[c(what, len(from))] }

// often returns true n times out of ten.
func (c chooser) often(what string, n int) bool { return c(what, 10) < n }

// system is a store with a server in front of it. Both can fail. One goroutine calls its
// methods. Others may call only server.
type system struct {
	store   *cachertest.Memory
	workers *sendqueue.Workers
	limits  systemLimits
	current atomic.Pointer[server]
	epochs  []*storeEpoch // oldest first; the last one is the present one

	// Writes do not wait for the dispatcher, and subscribers do not ask for the revision of the
	// store before they read. Bookmarks may therefore be old.
	concurrent bool
}

type systemLimits struct {
	window     cacher.WindowLimits
	tombstones int
	dispatch   feed.Config
}

// server is the part of a system that a restart replaces.
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

// storeEpoch is one epoch of the store, with the conditions for the checkers.
type storeEpoch struct {
	name object.Epoch
	check.Conditions
	history [][]object.Record // set when it ends
}

// smallLimits returns limits that the test reaches all the time.
func smallLimits(c chooser) systemLimits {
	var l systemLimits
	l.window.MinChanges = 3 + c("floor", 12)
	l.window.MaxChanges = l.window.MinChanges + c("ceiling", 20)
	l.window.Freshness = pick(c, "freshness", time.Second, time.Hour)
	l.tombstones = 1 + c("tombstones", 4)
	l.dispatch.MessageBytes = pick(c, "message", 200, 600, 2000)
	l.dispatch.LogBytes = pick(c, "feeds", 1<<10, 4<<10, 16<<10)
	l.dispatch.CatchUpBytes = pick(c, "catch-ups", 500, 1<<20)
	l.dispatch.CatchUpStates = pick(c, "states", 1, 2, 4)
	return l
}

func newSystem(l systemLimits) *system {
	y := &system{store: cachertest.NewMemory(), workers: sendqueue.Start(2), limits: l, epochs: []*storeEpoch{{name: "e1"}}}
	y.start()
	return y
}

func (y *system) epoch() *storeEpoch { return y.epochs[len(y.epochs)-1] }

func (y *system) server() *server { return y.current.Load() }

func (y *system) start() {
	codec, err := object.NewCodec("json", schema)
	if err != nil {
		panic(err)
	}
	s := &server{}
	s.cacher = cacher.New(cacher.Config{
		Resource: "test", Store: y.store, Codec: codec, Preencode: wire.Preencode,
		Window: y.limits.window, MaxTombstones: y.limits.tombstones, Log: slog.New(slog.DiscardHandler),
		// The cacher asks the store for its revision only for bookmarks. The time of the last
		// attempt is random, and nothing else may depend on it.
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
	y.current.Store(s)
}

var keys = []object.Key{"a", "a/b", "ab", "a/b/0", "a/b/1", "a/b/2", "a/c", "c/0", "c/1", "c/2", "d"}

// write commits transactions of one key, several or all. A transaction without keys stands for
// a write to another resource.
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
		e := y.epoch()
		e.Acknowledged = append(e.Acknowledged, check.Acknowledged{Begun: begun, At: time.Now(), Revision: at})
		if !y.concurrent {
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

// pause lets time pass. The durations in these tests are chosen so that no two of them end at
// the same moment, and the order of events does not depend on luck.
func pause(c chooser) {
	time.Sleep(pick(c, "pause", 1013*time.Microsecond, 21_037*time.Microsecond, 151_059*time.Microsecond, 2_003_071*time.Microsecond))
}

// noteOutage records that there were no bookmarks for a while, and the gap in the history, if
// the server has relisted. Before, it was at the revision at and had relisted the given number
// of times.
func (y *system) noteOutage(e *storeEpoch, from time.Time, at object.Revision, relists int64) {
	time.Sleep(10 * time.Second) // longer than it takes to try again
	y.settle()
	e.Outages = append(e.Outages, check.Span{From: from, To: time.Now()})
	if cached := y.server().cacher; cached.Counts().Relists != relists {
		now := cached.State().Revision()
		if n := len(e.Gaps); n > 0 && e.Gaps[n-1].Until == at {
			// The server knows nothing between both gaps.
			e.Gaps = append(e.Gaps, check.Gap{After: e.Gaps[n-1].After, Until: now})
		}
		e.Gaps = append(e.Gaps, check.Gap{After: at, Until: now})
		// A server that starts later must not see these changes either.
		y.store.Change(func() { y.store.Compacted = max(y.store.Compacted, now) })
	}
}

// settle waits until the server has caught up with the store.
func (y *system) settle() {
	for {
		synctest.Wait()
		s := y.server().cacher
		if s.Following() && s.State().Position() == (object.Position{Epoch: y.epoch().name, Revision: y.store.Now()}) {
			return
		}
		s.Advance()
		time.Sleep(100 * time.Millisecond)
	}
}

// silence makes the store send nothing for a while. It may be compacted meanwhile.
func (y *system) silence(c chooser) {
	y.settle()
	from, cached := time.Now(), y.server().cacher
	at, relists := cached.State().Revision(), cached.Counts().Relists
	y.store.Change(func() { y.store.Quiet = true })
	y.write(c, c("commits", 12))
	pause(c)
	y.compact(c)
	y.store.Change(func() { y.store.Quiet = false })
	y.noteOutage(y.epoch(), from, at, relists)
}

// compact compacts the store, most of the time.
func (y *system) compact(c chooser) {
	now := y.store.Now()
	if c.often("compact", 7) {
		back := object.Revision(c("back", 3))
		y.store.Change(func() { y.store.Compacted = max(1, now-back, y.store.Compacted) })
	}
}

// outage makes the store unavailable for a while. It may be compacted meanwhile.
func (y *system) outage(c chooser) {
	y.settle()
	from, cached := time.Now(), y.server().cacher
	at, relists := cached.State().Revision(), cached.Counts().Relists
	y.store.Change(func() { y.store.Down = object.ErrUnavailable })
	y.write(c, c("commits", 6))
	pause(c)
	y.compact(c)
	y.store.Change(func() { y.store.Down = nil })
	y.noteOutage(y.epoch(), from, at, relists)
}

// restore replaces the store by one with another epoch and history.
func (y *system) restore(c chooser) {
	y.settle()
	from, old := time.Now(), y.epoch()
	y.store.Change(func() { y.store.Down = object.ErrUnavailable })
	synctest.Wait()
	old.history = y.store.History()
	y.epochs = append(y.epochs, &storeEpoch{name: object.Epoch(fmt.Sprint("e", len(y.epochs)+1))})
	y.store.Restart(y.epoch().name)
	y.write(c, c("commits", 30))
	y.store.Change(func() { y.store.Down = nil })
	y.noteOutage(y.epoch(), from, 0, y.server().cacher.Counts().Relists)
	old.Outages = append(old.Outages, check.Span{From: from, To: time.Now()})
}

// restart replaces the server. The new one has as much history as the store.
func (y *system) restart(c chooser) {
	y.settle()
	from, e := time.Now(), y.epoch()
	y.server().stop()
	y.write(c, c("commits", 3))
	now := y.store.Now()
	var compacted object.Revision
	y.store.Change(func() { compacted = y.store.Compacted })
	e.Forgotten = append(e.Forgotten, check.Forgotten{
		Since: now, Below: max(1, compacted, now-object.Revision(10*y.limits.window.MaxChanges)),
	})
	y.start()
	y.settle()
	e.Outages = append(e.Outages, check.Span{From: from, To: time.Now()})
}

// end stops the server and completes the conditions of all epochs.
func (y *system) end() {
	y.server().stop()
	y.workers.Stop()
	y.epoch().history = y.store.History()
	for _, e := range y.epochs {
		e.Window, e.Tombstones = y.limits.window.MinChanges, y.limits.tombstones
		if !y.concurrent {
			e.Patience = bookmarkPatience
		}
	}
}

// bookmarkPatience is the time that a bookmark may be late. It is enough for two of the
// longest bookmark intervals.
const bookmarkPatience = 2100 * time.Millisecond

// truth returns the history and conditions of the epoch for the checkers.
func (e *storeEpoch) truth(n *naiveHistory) (*check.Truth, error) {
	truth, err := check.NewTruth(n.changes, object.Revision(len(e.history)))
	if err != nil {
		return nil, err
	}
	truth.Conditions = e.Conditions
	return truth, nil
}
