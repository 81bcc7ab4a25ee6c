package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fanoutd/fanoutd/test/check"
	"github.com/fanoutd/fanoutd/test/etcdproc"
	"github.com/fanoutd/fanoutd/test/poll"
	"github.com/fanoutd/fanoutd/test/seed"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// TestPartitions checks that watchers and readers of two servers see exactly etcd's history
// while parts of the network fail. etcd has three members. Every connection between members,
// and from a server to a member, goes through a link. At the end of each round etcd is
// restored from a snapshot while links are frozen.
//
// The test logs the longest outage of reads, writes and watches by fault. It checks only
// what clients saw and not how long it took. In a run with many compactions, a server must
// have lost changes.
func TestPartitions(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	t.Parallel()
	random := seed.New(t)
	enough := soakDuration(t)
	extent := extent{faults: 3, shortest: 500 * time.Millisecond, longest: 1500 * time.Millisecond}
	if enough > 0 {
		// Longer than a server and etcd need to notice a dead connection.
		extent.faults, extent.longest = 8, 15*time.Second
	}
	outages := outageTable{}
	defer outages.print(t)
	losses := &losses{}
	begun := time.Now()
	for round := seed.Seed(0); round == 0 || time.Since(begun) < enough; round++ {
		if !t.Run(fmt.Sprint(round), func(t *testing.T) { partitionRound(t, random+round, extent, outages, losses) }) {
			return
		}
	}
	losses.check(t)
}

// losses counts the rounds with a compaction, and what happened in these rounds because a
// server had lost changes.
type losses struct {
	rounds   int
	relists  int // of servers
	inStream int // DELTAs and RESETs that did not begin a stream
	deltas   int // in a stream or at its beginning
}

func (l *losses) add(seen map[string]int) {
	l.rounds++
	l.relists += seen["gaps"]
	l.inStream += seen["catch-ups in the stream"]
	l.deltas += seen["deltas"]
}

// check fails if no server lost changes in many rounds. In a single round that is common: the
// server had received all changes already, or its watch did not use a frozen link.
func (l *losses) check(t *testing.T) {
	t.Helper()
	t.Logf("%d rounds with a compaction while links were frozen: %d relists, %d catch-ups in a stream, %d DELTAs", l.rounds, l.relists, l.inStream, l.deltas)
	const many = 20
	if l.rounds >= many && (l.relists == 0 || l.inStream == 0 || l.deltas == 0) {
		t.Error("the test is too easy: no server lost changes, or no watcher got a DELTA")
	}
}

// extent is how many faults a round has, and how long each one lasts.
type extent struct {
	faults            int
	shortest, longest time.Duration
}

// partitionRound injects random faults, and then restores etcd.
func partitionRound(t *testing.T, random seed.Seed, extent extent, outages outageTable, losses *losses) {
	t.Logf("%s=%d", seed.Variable, random)
	etcd := startLinkedCluster(t, 3)
	safeChange := random%2 == 0
	config := safeChangeIf(t, safeChange, resourceConfig)
	w := newScenario(t, startServer(t, append(configured(t, config), etcd.near.endpoints()...)...), etcd.client, promised, random)
	w.others = []*server{startServer(t, append(configured(t, config), etcd.far.endpoints()...)...)}
	w.safeChange = safeChange
	w.populate(t, 20, 40)
	w.crowd(t, 5, otherWatches(t))
	probes := w.startOutageProbes()
	rng := random.Rand(5000)
	faults := w.partitions(t, etcd, rng)
	var names []string
	var lasted []check.Span
	for _, i := range rng.Perm(len(faults))[:extent.faults] {
		w.changes(t, 50)
		from := time.Now()
		w.disturb(t, func() {
			heal := faults[i].begin()
			w.lasts(extent.shortest + time.Duration(rng.Int64N(int64(extent.longest-extent.shortest))))
			heal()
			etcd.heal()
			w.caughtUp(w.ctx, t, etcd, int64(w.ledger.newest()))
		})
		names, lasted = append(names, faults[i].name), append(lasted, check.Span{From: from, To: time.Now()})
		t.Logf("%s, for %v", faults[i].name, time.Since(from).Round(time.Millisecond))
	}
	w.changes(t, 50)
	truth := w.validate(t, "live", "reads")
	if w.compactedAt() > 0 {
		losses.add(w.seen(truth))
	}
	w.compareLists(t, append(w.others, w.server), truth)
	for _, p := range probes {
		p.deliver()
	}
	for i, longest := range longestOutages(probes, lasted) {
		outages.add(names[i], lasted[i].To.Sub(lasted[i].From), longest)
	}
	if !t.Failed() {
		w.restore(t, etcd, rng, outages)
	}
}

// partition is a fault between the parts of a cluster. Healing all links and then calling
// the result of begin ends it.
type partition struct {
	name  string
	begin func() (end func())
}

// partitions returns the faults of a round. Each one is at a random place.
func (w *scenario) partitions(t *testing.T, etcd *cluster, rng *rand.Rand) []partition {
	t.Helper()
	nothing := func() {}
	oneServer := func() links { return pick(rng, []links{etcd.near, etcd.far}) }
	anyLink := func() *link { return pick(rng, oneServer()) }
	anyMember := func() int { return rng.IntN(len(etcd.members)) }
	leader := func() int {
		l := etcd.leader(t)
		for i, m := range etcd.members {
			if m == l {
				return i
			}
		}
		return 0
	}
	do := func(f func()) func() func() {
		return func() func() {
			f()
			return nothing
		}
	}
	killed := func(member func() int) func() func() {
		return func() func() {
			lost := []*etcdproc.Member{etcd.members[member()]}
			kill(t, lost)
			return func() { launch(t, lost) }
		}
	}
	paused := func(member func() int) func() func() {
		return func() func() {
			m := etcd.members[member()]
			m.Signal(t, syscall.SIGSTOP)
			return func() { m.Signal(t, syscall.SIGCONT) }
		}
	}
	someLinks := func() links {
		all := oneServer()
		var some links
		for _, i := range rng.Perm(len(all))[:1+rng.IntN(2)] {
			some = append(some, all[i])
		}
		return some
	}
	compact := func() {
		w.changes(t, 20)
		w.compact(t)
	}
	defragment := func() {
		for _, m := range etcd.members {
			ctx, cancel := context.WithTimeout(w.ctx, poll.Patience)
			_, err := etcd.client.Defragment(ctx, m.Address)
			cancel()
			if err != nil {
				t.Errorf("defragment: %v", err)
			}
		}
	}
	return []partition{
		{"one link of a server frozen", do(func() { anyLink().freeze() })},
		{"one link of a server cut", do(func() { anyLink().cut() })},
		{"one link of a server half-open, nothing arrives", do(func() { anyLink().halve(fromTarget) })},
		{"one link of a server half-open, nothing is sent", do(func() { anyLink().halve(toTarget) })},
		{"two links of a server frozen", do(func() { oneServer()[:2].freeze() })},
		{"all links of a server frozen", do(func() { oneServer().freeze() })},
		{"all links of a server half-open, nothing arrives", do(func() { oneServer().halve(fromTarget) })},
		{"all links of a server cut", do(func() { oneServer().cut() })},
		{"all links of a server delayed by 50 to 250 ms", do(func() { oneServer().slow(time.Duration(50+rng.IntN(200)) * time.Millisecond) })},
		{"links between members delayed by 20 to 100 ms", do(func() {
			delay := time.Duration(20+rng.IntN(80)) * time.Millisecond
			for _, l := range etcd.peers {
				l.slow(delay)
			}
		})},
		{"one link between members frozen", do(func() { pick(rng, etcd.peers).freeze() })},
		{"one link between members half-open", do(func() { pick(rng, etcd.peers).halve(pick(rng, []direction{toTarget, fromTarget})) })},
		{"leader cut off from the other members", do(func() { etcd.around(leader()).cut() })},
		{"leader frozen off from the other members", do(func() { etcd.around(leader()).freeze() })},
		{"one member cut off from the other members", do(func() { etcd.around(anyMember()).cut() })},
		{"one member frozen off from the other members", do(func() { etcd.around(anyMember()).freeze() })},
		{"leader killed", killed(leader)},
		{"one member killed", killed(anyMember)},
		{"leader paused", paused(leader)},
		{"one member paused", paused(anyMember)},
		{"compaction while one or two links of a server are frozen", do(func() { someLinks().freeze(); compact() })},
		{"compaction while all links of a server are frozen", do(func() { oneServer().freeze(); compact() })},
		{"defragmentation while one or two links of a server are frozen", do(func() { someLinks().freeze(); defragment() })},
		{"defragmentation while all links of a server are frozen", do(func() { oneServer().freeze(); defragment() })},
	}
}

// lasts waits for a time, or until an actor fails.
func (w *scenario) lasts(d time.Duration) {
	select {
	// the duration of a phase
	case <-time.After(d):
	case <-w.ctx.Done():
	}
}

// caughtUp waits until every member answers, and every server has the revision.
func (w *scenario) caughtUp(ctx context.Context, t *testing.T, etcd *cluster, revision int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, poll.Patience)
	defer cancel()
	for _, m := range etcd.members {
		if err := linearizable(ctx, dialEtcd(t, m.Address)); err != nil {
			t.Fatalf("etcd %s does not recover: %v", m.Address, err)
		}
	}
	for _, s := range append(w.others, w.server) {
		for {
			_, err := fanoutv1.NewFanoutServiceClient(s.conn).List(ctx, &fanoutv1.ListRequest{
				Resource: resource, PageSize: 1,
				Consistency: &fanoutv1.ReadConsistency{Level: &fanoutv1.ReadConsistency_MinRevision{MinRevision: revision}},
			})
			if err == nil {
				break
			}
			if ctx.Err() != nil {
				t.Fatalf("a server does not reach revision %d: %v", revision, err)
			}
		}
	}
}

// linearizable waits until an etcd answers a linearizable read.
func linearizable(ctx context.Context, client *clientv3.Client) error {
	defer client.Close()
	for {
		// A member that is cut off does not answer. Further attempts follow.
		attempt, cancel := context.WithTimeout(ctx, time.Second)
		_, err := client.Get(attempt, "x", clientv3.WithCountOnly())
		cancel()
		if err == nil || ctx.Err() != nil {
			return err
		}
	}
}
