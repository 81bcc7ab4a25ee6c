package e2e

import (
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/check"
	"github.com/fanoutd/fanoutd/test/loopback"
	"github.com/fanoutd/fanoutd/test/seed"
)

// soakVariable says how long the randomized test goes on, as 10m or 8h. Without it
// there is one round.
const soakVariable = "FANOUTD_SOAK"

// Watchers of every kind, some of which come and go and some of which read slowly,
// see exactly what etcd says has happened, and so do those who list, while writers
// write and everything breaks that can.
func TestWatchersSeeExactlyWhatHappened(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	t.Parallel()
	random := seed.New(t)
	var enough time.Duration
	if text := os.Getenv(soakVariable); text != "" {
		var err error
		if enough, err = time.ParseDuration(text); err != nil {
			t.Fatalf("%s: %v", soakVariable, err)
		}
	}
	t.Run("embedded etcd", func(t *testing.T) { embeddedRound(t, random) })
	t.Run("without a cache", func(t *testing.T) { uncachedRound(t, random) })
	begun := time.Now()
	for round := seed.Seed(0); round == 0 || time.Since(begun) < enough; round++ {
		name := "external etcd"
		if enough > 0 {
			name = time.Since(begun).Round(time.Second).String()
		}
		if !t.Run(name, func(t *testing.T) { externalRound(t, random+round) }) {
			return
		}
	}
}

// embeddedRound is one in which the store is restarted with the server.
func embeddedRound(t *testing.T, random seed.Seed) {
	t.Logf("%s=%d", seed.Variable, random)
	etcd := loopback.FreeAddress(t)
	args := append(configured(t, resourceConfig), embedded(t, etcd)...)
	w := newWorld(t, startServer(t, args...), dialEtcd(t, etcd), promised, random)
	w.populate(t, 30, 60)
	for _, signal := range []os.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		w.changes(t, 250)
		w.disturb(t, func() {
			since := w.ledger.newest()
			w.server.end(t, signal)
			w.server.start(t)
			w.forget(check.Forgotten{Since: since, Below: since - smallWindow})
		})
	}
	w.changes(t, 300)
	w.judge(t, "replays", "resets", "live", "merged", "previous", "bookmarks", "reads")
}

// externalRound is one in which everything breaks, around an etcd of three members.
func externalRound(t *testing.T, random seed.Seed) {
	t.Logf("%s=%d", seed.Variable, random)
	etcd := startCluster(t, 3)
	w := newWorld(t, startServer(t, append(configured(t, resourceConfig), etcd.near.endpoints()...)...), etcd.client, promised, random)
	w.others = []*server{startServer(t, append(configured(t, resourceConfig), etcd.far.endpoints()...)...)}
	w.populate(t, 60, 60)
	rng := random.Rand(5000)
	w.suffer(t, rng, append(w.faults(t, etcd), w.overtaken(t, etcd), w.leaderless(t, etcd), w.forLong(t, pick(rng, w.severings(t, etcd)))), 200)
	w.judge(t, "replays", "deltas", "resets", "from now", "drainings", "live", "merged", "previous", "without values", "bookmarks",
		"every event, expired", "time limits", "exact snapshots", "gaps", "resets of who resumed", "reads", "exact reads", "reads in pages", "reads that know what remains")
}

// uncachedRound is one in which everything breaks around a server that reads
// everything from etcd.
func uncachedRound(t *testing.T, random seed.Seed) {
	t.Logf("%s=%d", seed.Variable, random)
	etcd := startCluster(t, 1)
	w := newWorld(t, startServer(t, append(configured(t, uncachedConfig), etcd.near.endpoints()...)...), etcd.client, promisedUncached, random)
	w.populate(t, 30, 60)
	rng := random.Rand(5000)
	w.suffer(t, rng, append(w.faults(t, etcd), w.overtaken(t, etcd), w.forLong(t, pick(rng, w.severings(t, etcd)))), 60)
	w.changes(t, 500) // in peace, for so long that silence would be noticed
	w.judge(t, "replays", "resets", "from now", "drainings", "live", "merged", "previous", "bookmarks", "reads", "exact reads")
}

// judge waits until everybody has seen everything, and says who saw something
// wrong. The test is too easy if one of these things never happened.
func (w *world) judge(t *testing.T, demanding ...string) {
	t.Helper()
	truth := w.finish(t)
	w.judgeWatchers(t, truth)
	w.judgeReaders(t, truth)
	if err := w.ledger.survived(truth); err != nil {
		t.Error(err)
	}
	seen := w.seen(truth)
	bookmarks := w.bookmarksDue(truth)
	farewells, farewell := w.farewells(truth)
	behind := 0
	for _, watcher := range w.watchers {
		behind = max(behind, check.Backlog(&watcher.history, truth))
	}
	t.Logf("those who read at once were up to %d writes behind", behind)
	t.Logf("%d changes, %d watchers: %v; about %d bookmarks were due, and %d last ones, of which %d came",
		truth.Len(), len(w.watchers), seen, bookmarks, farewells, farewell)
	for _, what := range demanding {
		if seen[what] == 0 {
			t.Errorf("the test is too easy: there were no %s", what)
		}
	}
	// Of the bookmarks that were due, most have to come: machines that run tests
	// are busy, but not that busy.
	if came := seen["bookmarks"]; came < bookmarks/4 {
		t.Errorf("%d bookmarks came, but about %d were due", came, bookmarks)
	}
	// A last bookmark can come too late for its deadline, but not each time.
	if farewells >= 5 && farewell == 0 {
		t.Errorf("none of %d streams had a last bookmark before its deadline", farewells)
	}
}

// seen counts what happened to the watchers and readers.
func (w *world) seen(truth *check.Truth) map[string]int {
	seen := map[string]int{"gaps": len(truth.Gaps)}
	count := func(what string, is bool) {
		if is {
			seen[what]++
		}
	}
	for _, watcher := range w.watchers {
		h := &watcher.history
		for i := range h.Streams {
			s := &h.Streams[i]
			count("streams", true)
			count("from now", s.Begin == check.FromNow && len(s.Messages) > 0)
			count("exact snapshots", s.Exact > 0 && len(s.Messages) > 0)
			count("time limits", s.Status == check.StatusOK)
			count("every event, expired", s.Status == check.StatusPositionExpired)
			for j := range s.Messages {
				m := &s.Messages[j]
				count("messages", true)
				count("replays", m.CatchUp == object.Replay)
				count("deltas", m.CatchUp == object.Delta)
				count("resets", m.CatchUp == object.Reset)
				count("resets of who resumed", m.CatchUp == object.Reset && s.Begin == check.After && s.Position.Revision > 0)
				count("catch-ups in the stream", m.Kind == object.CatchUpBegin && j > 0)
				count("drainings", m.Kind == object.Draining)
				count("live", m.Kind == object.Live)
				count("bookmarks", m.Kind == object.Bookmark && j > 0)
				count("partial", m.Partial)
				for k := range m.Events {
					e := &m.Events[k]
					count("events", true)
					count("merged", h.Latest && m.Kind == object.Live)
					count("previous", e.Previous != nil)
					count("without values", e.Object.Value == nil)
				}
			}
		}
	}
	for _, reader := range w.readers {
		for i := range reader.reads {
			read := &reader.reads[i]
			count("reads", len(read.Pages) > 0)
			count("exact reads", read.Exact > 0 && len(read.Pages) > 0)
			count("reads in pages", len(read.Pages) > 1)
			count("reads that know what remains", len(read.Pages) > 1 && read.Pages[1].Remaining != nil)
		}
	}
	return seen
}
