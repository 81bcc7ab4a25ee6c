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

// soakVariable sets how long the randomized test runs, such as 10m or 8h. Without it the
// test runs one round.
const soakVariable = "FANOUTD_SOAK"

// soakDuration returns how long a randomized test runs. 0: one round.
func soakDuration(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv(soakVariable)
	if text == "" {
		return 0
	}
	enough, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("%s: %v", soakVariable, err)
	}
	return enough
}

// TestWatchersSeeExactlyWhatHappened checks that watchers of every kind and readers see
// exactly etcd's history. Some watchers come and go, and some read slowly. Meanwhile
// writers write, and everything that can fail fails.
func TestWatchersSeeExactlyWhatHappened(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	t.Parallel()
	random := seed.New(t)
	enough := soakDuration(t)
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

// embeddedRound restarts a server with an embedded etcd.
func embeddedRound(t *testing.T, random seed.Seed) {
	t.Logf("%s=%d", seed.Variable, random)
	etcd := loopback.FreeAddress(t)
	safeChange := random%2 == 0
	args := append(configured(t, safeChangeIf(t, safeChange, resourceConfig)), embedded(t, etcd)...)
	w := newScenario(t, startServer(t, args...), dialEtcd(t, etcd), promised, random)
	w.safeChange = safeChange
	w.populate(t, 30, 60)
	w.crowd(t, 30, otherWatches(t))
	for _, signal := range []os.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		w.changes(t, 250)
		w.disturb(t, func() { w.restart(t, signal) })
	}
	w.changes(t, 300)
	w.validate(t, "replays", "resets", "live", "merged", "previous", "bookmarks", "reads")
}

// externalRound injects every fault around an etcd of three members.
func externalRound(t *testing.T, random seed.Seed) {
	t.Logf("%s=%d", seed.Variable, random)
	etcd := startCluster(t, 3)
	safeChange := random%2 == 1
	config := safeChangeIf(t, safeChange, resourceConfig)
	w := newScenario(t, startServer(t, append(configured(t, config), etcd.near.endpoints()...)...), etcd.client, promised, random)
	w.others = []*server{startServer(t, append(configured(t, config), etcd.far.endpoints()...)...)}
	w.safeChange = safeChange
	w.populate(t, 60, 60)
	w.crowd(t, 200, 0)
	rng := random.Rand(5000)
	w.inject(t, rng, append(w.faults(t, etcd), w.compactAhead(t, etcd), w.leaderLoss(t, etcd), w.oneFrozenLink(t, rng, etcd), w.longOutage(t, pick(rng, w.storeOutages(t, etcd)))), 200)
	w.validate(t, "replays", "deltas", "resets", "from now", "drainings", "live", "merged", "previous", "without values", "bookmarks",
		"every event, expired", "time limits", "exact snapshots", "gaps", "resets of resumed watches", "reads", "exact reads", "reads in pages", "reads with a remaining count",
		"ids used again", "refusals of ids in use", "shared entries", "revisions of several watches")
}

// uncachedRound injects every fault around a server without a cache.
func uncachedRound(t *testing.T, random seed.Seed) {
	t.Logf("%s=%d", seed.Variable, random)
	etcd := startCluster(t, 1)
	safeChange := random/2%2 == 0
	config := safeChangeIf(t, safeChange, uncachedConfig)
	w := newScenario(t, startServer(t, append(configured(t, config), etcd.near.endpoints()...)...), etcd.client, promisedUncached, random)
	w.safeChange = safeChange
	w.populate(t, 25, 60) // each is a watch of etcd
	w.crowd(t, 5, otherWatches(t))
	rng := random.Rand(5000)
	w.inject(t, rng, append(w.faults(t, etcd), w.compactAhead(t, etcd), w.longOutage(t, pick(rng, w.storeOutages(t, etcd)))), 60)
	w.changes(t, 500) // without faults, long enough to notice a silent watch
	w.validate(t, "replays", "resets", "from now", "drainings", "live", "merged", "previous", "bookmarks", "reads", "exact reads")
}

// validate waits until every watcher has received everything, and reports those that
// received something wrong. It also fails if one of the demanded things never happened. It
// returns the truth.
func (w *scenario) validate(t *testing.T, demanding ...string) *check.Truth {
	t.Helper()
	truth := w.finish(t)
	w.validateWatchers(t, truth)
	w.validateReaders(t, truth)
	if err := w.ledger.survived(truth); err != nil {
		t.Error(err)
	}
	seen := w.seen(truth)
	w.validateSubscriptions(t, truth, seen)
	if w.safeChange {
		validateRecords(t, w.etcd, truth)
	}
	bookmarks := w.bookmarksDue(truth)
	finalDue, finalCame := w.finalBookmarks(truth)
	lag := 0
	for _, watcher := range w.watchers {
		lag = max(lag, check.Backlog(&watcher.history, truth))
	}
	t.Logf("watchers that always read were up to %d writes behind", lag)
	t.Logf("%d changes, %d watchers: %v; about %d bookmarks were due; %d final bookmarks were due, %d arrived",
		truth.Len(), len(w.watchers), seen, bookmarks, finalDue, finalCame)
	for _, what := range demanding {
		if seen[what] == 0 {
			t.Errorf("the test is too easy: there were no %s", what)
		}
	}
	// Most of the bookmarks that were due must arrive. The margin is for busy machines.
	if came := seen["bookmarks"]; came < bookmarks/4 {
		t.Errorf("got %d bookmarks, want about %d", came, bookmarks)
	}
	// One or two final bookmarks may miss their deadlines, but not all of them.
	if finalDue >= 3 && finalCame == 0 {
		t.Errorf("got no final bookmark before the deadline on any of %d streams", finalDue)
	}
	return truth
}

// seen counts events of interest in what watchers and readers received.
func (w *scenario) seen(truth *check.Truth) map[string]int {
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
				count("resets of resumed watches", m.CatchUp == object.Reset && s.Begin == check.After && s.Position.Revision > 0)
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
			count("reads with a remaining count", len(read.Pages) > 1 && read.Pages[1].Remaining != nil)
		}
	}
	return seen
}
