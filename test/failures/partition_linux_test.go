package failures

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/check"
	"github.com/fanoutd/fanoutd/test/check/recorded"
	"github.com/fanoutd/fanoutd/test/poll"
	"github.com/fanoutd/fanoutd/test/race"
	"github.com/fanoutd/fanoutd/test/seed"
)

// load is one writer, one reader and two subscribers at each server of a cluster. Writers set two keys to the
// same new value, in a transaction. Readers read both, as new as any write before.
type load struct {
	network *network
	stop    chan struct{}
	clients sync.WaitGroup
	watched []subscribers
	follows sync.WaitGroup
	goal    atomic.Int64 // the revision up to which the subscribers read; 0: for ever

	mu         sync.Mutex
	newest     object.Revision // acknowledged to a writer or a reader; guarded by mu
	written    []written       // guarded by mu
	unknown    int             // guarded by mu
	notApplied map[string]bool // values; guarded by mu
	reads      []check.Read    // guarded by mu
	of         []progress      // by server; guarded by mu
}

// written is an acknowledged write.
type written struct {
	value    string
	revision object.Revision
}

// progress is what the writer at one server has done since the last fault.
type progress struct {
	acknowledged int
	last         time.Time
	longest      time.Duration // between two acknowledged writes
}

// writesEvery is the time between two writes of a writer. So the truth stays small enough to be checked.
const writesEvery = 10 * time.Millisecond

func startLoad(t *testing.T, n *network) *load {
	t.Helper()
	l := &load{network: n, stop: make(chan struct{}), notApplied: map[string]bool{}, of: make([]progress, len(n.servers))}
	l.begin()
	for i, s := range n.servers {
		both := newSubscribers(fmt.Sprintf("subscriber of server %d", i))
		both.subscribe(t, s.reads)
		l.watched = append(l.watched, both)
		for _, one := range both {
			l.follows.Go(func() { l.follow(t, one) })
		}
		l.clients.Go(func() { l.write(t, i) })
		l.clients.Go(func() { l.read(t, i) })
	}
	return l
}

// begin begins to count anew.
func (l *load) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.of {
		l.of[i] = progress{last: time.Now()}
	}
}

// follow receives what a subscriber gets.
func (l *load) follow(t *testing.T, s *subscriber) {
	for {
		m, err := s.receive(t)
		if err != nil {
			t.Errorf("%s: the stream ended: %v", s.history.Watcher, err)
			return
		}
		if goal := l.goal.Load(); goal > 0 && int64(m.Position.Revision) >= goal {
			return
		}
	}
}

func (l *load) stopped() bool {
	select {
	case <-l.stop:
		return true
	default:
		return false
	}
}

func (l *load) write(t *testing.T, server int) {
	pace := time.NewTicker(writesEvery)
	defer pace.Stop()
	// Two keys of a writer change together. A write of unknown outcome may happen later, after others.
	a, b := fmt.Sprintf("pair-%d/a", server), fmt.Sprintf("pair-%d/b", server)
	for n := 0; !l.stopped(); n++ {
		<-pace.C
		value := fmt.Sprintf("%d of server %d", n, server)
		resp, err := l.network.servers[server].writes.Transact(contextFor(t), &fanoutv1.TransactRequest{
			Resource: resource, Operations: []*fanoutv1.Operation{putBoth(a, value), putBoth(b, value)},
		})
		l.mu.Lock()
		switch {
		case err == nil:
			revision := object.Revision(resp.GetRevision())
			l.newest = max(l.newest, revision)
			l.written = append(l.written, written{value, revision})
			p, now := &l.of[server], time.Now()
			p.acknowledged++
			p.longest, p.last = max(p.longest, now.Sub(p.last)), now
		case reasonOf(err) == "WRITE_NOT_APPLIED":
			l.notApplied[value] = true
		case status.Code(err) == codes.Unavailable || status.Code(err) == codes.DeadlineExceeded:
			l.unknown++
		default:
			t.Errorf("a write at server %d: %v", server, err)
		}
		l.mu.Unlock()
	}
}

func putBoth(key, value string) *fanoutv1.Operation {
	put := &fanoutv1.PutOperation{Key: key, Value: &fanoutv1.PutOperation_Data{Data: []byte(value)}}
	return &fanoutv1.Operation{Operation: &fanoutv1.Operation_Put{Put: put}}
}

func (l *load) read(t *testing.T, server int) {
	pace := time.NewTicker(writesEvery)
	defer pace.Stop()
	for !l.stopped() {
		<-pace.C
		l.readOnce(contextFor(t), t, server)
	}
}

// readOnce makes a linearizable read, and records it if it is answered.
func (l *load) readOnce(ctx context.Context, t *testing.T, server int) {
	l.mu.Lock()
	read := check.Read{Reader: fmt.Sprintf("the reader at server %d", server), NotBefore: l.newest}
	l.mu.Unlock()
	resp, err := l.network.servers[server].reads.List(ctx, &fanoutv1.ListRequest{Resource: resource})
	if err != nil {
		if code := status.Code(err); code != codes.Unavailable && code != codes.DeadlineExceeded {
			t.Errorf("a read at server %d: %v", server, err)
		}
		return
	}
	page := check.Page{Position: recorded.Position(resp.GetPosition())}
	for _, o := range resp.GetObjects() {
		decoded, err := recorded.Object(o)
		if err != nil {
			t.Error(err)
			return
		}
		page.Objects = append(page.Objects, decoded)
	}
	page.Remaining = new(int64)
	read.Pages = []check.Page{page}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.newest = max(l.newest, page.Position.Revision)
	l.reads = append(l.reads, read)
}

// goesOn waits until so many writes have been acknowledged at each of these servers since the last fault.
func (l *load) goesOn(t *testing.T, writes int, servers ...int) {
	t.Helper()
	for _, i := range servers {
		poll.Until(t, fmt.Sprintf("writes at server %d go on", i), func() bool {
			l.mu.Lock()
			defer l.mu.Unlock()
			return l.of[i].acknowledged >= writes
		})
	}
}

// longest returns the longest pause of the writers at these servers since the last fault.
func (l *load) longest(servers ...int) (longest time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, i := range servers {
		longest = max(longest, l.of[i].longest)
	}
	return longest
}

// validate ends the load, and compares all that its clients have seen with the history of etcd.
func (l *load) validate(t *testing.T) {
	t.Helper()
	close(l.stop)
	l.clients.Wait()
	etcd := dialEtcd(t, l.network.etcds...)
	etcd.read(t)
	l.goal.Store(int64(etcd.through) + 1)
	etcd.put(t, "last", "1")
	l.follows.Wait()
	truth := etcd.truth(t)
	t.Logf("%d writes acknowledged, %d not applied, %d of unknown outcome; %d reads", len(l.written), len(l.notApplied), l.unknown, len(l.reads))
	values := map[string][]object.Revision{} // those that were written
	for _, c := range etcd.changes {
		values[string(c.New.Value)] = append(values[string(c.New.Value)], c.Revision)
	}
	for _, w := range l.written {
		if got := values[w.value]; !slices.Equal(got, []object.Revision{w.revision, w.revision}) {
			t.Errorf("the write of %q was acknowledged at revision %d, and its keys have it at %v", w.value, w.revision, got)
		}
	}
	for value := range l.notApplied {
		if got := values[value]; len(got) > 0 {
			t.Errorf("the write of %q was reported as not applied, and is there at %v", value, got)
		}
	}
	for _, r := range l.reads {
		if err := check.Consistent(&r, truth); err != nil {
			t.Error(err)
		}
	}
	for _, both := range l.watched {
		both.validate(t, truth)
		both.caughtUp(t, object.Reset)
	}
}

// partition is a fault between servers.
type partition struct {
	name  string
	begin func(n *network, of []int) // of the leader, and then its followers, in any order
	apart []int                      // the places in this order of those that may be without the others
}

var (
	theLeader   = []int{0}
	theFollower = []int{1}
	thePair     = []int{0, 1}
	twoFollow   = []int{1, 2}
)

// ofThree are the partitions of three servers.
var ofThree = []partition{
	{"leader without answers", func(n *network, of []int) { n.lose(n.around(of[0])...) }, theLeader},
	{"leader cut off", func(n *network, of []int) { n.refuse(n.around(of[0])...) }, theLeader},
	{"leader hears nothing", func(n *network, of []int) { n.lose(n.to(of[0])...) }, theLeader},
	{"leader is not heard", func(n *network, of []int) { n.lose(n.from(of[0])...) }, theLeader},
	{"follower without answers", func(n *network, of []int) { n.lose(n.around(of[1])...) }, theFollower},
	{"follower cut off", func(n *network, of []int) { n.refuse(n.around(of[1])...) }, theFollower},
	{"follower hears nothing", func(n *network, of []int) { n.lose(n.to(of[1])...) }, theFollower},
	{"follower is not heard", func(n *network, of []int) { n.lose(n.from(of[1])...) }, theFollower},
	{"leader and one follower do not hear each other", func(n *network, of []int) { n.lose(between(of[:1], of[1:2])...) }, theFollower},
	{"one follower does not hear the leader", func(n *network, of []int) { n.lose(way{of[0], of[1]}) }, theFollower},
	{"the leader does not hear one follower", func(n *network, of []int) { n.lose(way{of[1], of[0]}) }, theFollower},
	{"followers do not hear each other", func(n *network, of []int) { n.lose(between(of[1:2], of[2:])...) }, nil},
}

// ofFive are the partitions of five servers. Each leaves a majority of three.
var ofFive = []partition{
	{"leader and a follower cut off", func(n *network, of []int) { n.refuse(between(of[:2], of[2:])...) }, thePair},
	{"leader and a follower without answers", func(n *network, of []int) { n.lose(between(of[:2], of[2:])...) }, thePair},
	{"leader and a follower hear nothing", func(n *network, of []int) { n.lose(ways(of[2:], of[:2])...) }, thePair},
	{"leader and a follower are not heard", func(n *network, of []int) { n.lose(ways(of[:2], of[2:])...) }, thePair},
	{"leader and a follower cut off, also from each other", func(n *network, of []int) {
		n.refuse(slices.Concat(n.around(of[0]), n.around(of[1]))...)
	}, thePair},
	{"two followers cut off", func(n *network, of []int) { n.refuse(slices.Concat(n.around(of[1]), n.around(of[2]))...) }, twoFollow},
	{"one follower hears nothing, and another one is not heard", func(n *network, of []int) {
		n.lose(slices.Concat(n.to(of[1]), n.from(of[2]))...)
	}, twoFollow},
}

// TestPartitionsOfACluster cuts the links between three servers in many ways. No acknowledged write is lost, no
// transaction is torn, no linearizable read is stale, and all watches go on, without a RESET.
func TestPartitionsOfACluster(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	t.Parallel()
	partitionAll(t, 3, ofThree)
}

// TestPartitionsOfFiveServers does the same with five servers, two of which lose the others.
func TestPartitionsOfFiveServers(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	if race.Enabled {
		t.Skip("five servers take minutes under the race detector: see make test-full-size")
	}
	t.Parallel()
	partitionAll(t, 5, ofFive)
}

func partitionAll(t *testing.T, servers int, partitions []partition) {
	t.Helper()
	rng := seed.New(t).Rand(0)
	n := startNetwork(t, servers, "")
	l := startLoad(t, n)
	l.goesOn(t, 10, rng.Perm(servers)...)
	order := rng.Perm(len(partitions))
	if race.Enabled {
		order = order[:4] // all take a minute
	}
	for _, i := range order {
		partitionOnce(t, n, l, rng, &partitions[i])
	}
	l.validate(t)
}

func partitionOnce(t *testing.T, n *network, l *load, rng *rand.Rand, p *partition) {
	t.Helper()
	of := rng.Perm(len(n.servers))
	first := slices.Index(of, leadingServer(t, n.etcds))
	of[0], of[first] = of[first], of[0]
	var apart, majority []int
	for place, server := range of {
		if slices.Contains(p.apart, place) {
			apart = append(apart, server)
		} else {
			majority = append(majority, server)
		}
	}
	l.begin()
	p.begin(n, of)
	l.goesOn(t, 50, majority...)
	for _, server := range apart {
		// It has no way to know what the others have written meanwhile.
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		l.readOnce(ctx, t, server)
		cancel()
	}
	paused := l.longest(majority...)
	n.heal()
	l.begin()
	l.goesOn(t, 10, of...)
	t.Logf("%s: the longest pause of the writers at the others was %v", p.name, paused.Round(time.Millisecond))
}
