package failures

import (
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/check"
	"github.com/fanoutd/fanoutd/test/poll"
	"github.com/fanoutd/fanoutd/test/race"
)

// TestWatchesAtAServerThatGetsTheWholeDatabase cuts a follower off until the others do not have the entries any more that
// it misses. It gets the whole database of the leader, which replaces its own. Its watches go on: without a RESET, and with
// each event once. If the database has been compacted meanwhile, they get a DELTA.
func TestWatchesAtAServerThatGetsTheWholeDatabase(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	if race.Enabled {
		t.Skip("etcd replaces its alarms without a lock when it applies a snapshot of the leader (restoreAlarms), while others ask for them")
	}
	t.Parallel()
	t.Run("watches continue", func(t *testing.T) {
		t.Parallel()
		watchesAtAServerThatGetsTheWholeDatabase(t, false, object.Reset)
	})
	t.Run("the history is compacted", func(t *testing.T) {
		t.Parallel()
		watchesAtAServerThatGetsTheWholeDatabase(t, true, object.Reset, object.Delta)
	})
}

func watchesAtAServerThatGetsTheWholeDatabase(t *testing.T, compact bool, catchUps ...object.CatchUpKind) {
	n := startNetwork(t, 3, "log-level: debug\n")
	follower := (leadingServer(t, n.etcds) + 1) % 3
	server := n.servers[follower]
	s := newSubscribers("subscriber")
	s.subscribe(t, server.reads)
	s.until(t, object.Synced)
	var others []string
	for i, address := range n.etcds {
		if i != follower {
			others = append(others, address)
		}
	}
	etcd := dialEtcd(t, others...)
	known := etcd.put(t, "k", "before")
	s.reach(t, known)
	n.lose(n.around(follower)...)
	etcd.putMany(t, "without-0", 20)
	var writers errgroup.Group
	writers.SetLimit(128)
	const writes = 16_000 // more than the entries between two snapshots, and those that are kept then
	for i := range writes {
		writers.Go(func() error {
			_, err := etcd.Put(contextFor(t), "/elsewhere/"+strconv.Itoa(i%100), "value")
			return err
		})
	}
	if err := writers.Wait(); err != nil {
		t.Fatal(err)
	}
	last := etcd.put(t, "k", "after")
	if compact {
		etcd.read(t)
		if _, err := etcd.Compact(contextFor(t), int64(last)); err != nil {
			t.Fatal(err)
		}
	}
	n.heal()
	s.reach(t, last)
	poll.Until(t, "the follower has got the whole database", func() bool { return strings.Contains(server.log.String(), "applied snapshot") })
	s.reach(t, etcd.put(t, "k", "later"))
	s.caughtUp(t, catchUps...)
	truth := etcd.truth(t)
	if compact {
		truth.Gaps = []check.Gap{{After: known, Until: last}}
	}
	s.validate(t, truth)
}
