package leader_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fanoutd/fanoutd/internal/store/leader"
	"github.com/fanoutd/fanoutd/test/certs"
	"github.com/fanoutd/fanoutd/test/poll"
)

func slow(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes more than a second")
	}
}

// Every write is answered by the leader's member, and every read by the own member.
func TestWritesGoToTheLeader(t *testing.T) {
	slow(t)
	a := certs.NewAuthority(t)
	pair := a.Issue(t, certs.Server).Files(t)
	for name, c := range map[string]*cluster{"plain": startWith(t, patient, "", nil), "TLS": startWith(t, patient, a.File, &pair)} {
		t.Run(name, func(t *testing.T) { writesGoToTheLeader(t, c) })
	}
}

func writesGoToTheLeader(t *testing.T, c *cluster) {
	for _, member := range []int{1, own, 2} {
		c.lead(t, member)
		ctx := poll.Context(t)
		check := func(what string, want int, h *pb.ResponseHeader, err error) {
			t.Helper()
			if err != nil || h.GetMemberId() != uint64(c.ids[want]) {
				t.Errorf("leader %d: %s: got an answer of %x, %v, want one of %v", member, what, h.GetMemberId(), err, c.ids[want])
			}
		}
		put := put(fmt.Sprintf("key-%d", member))
		deletion := &pb.DeleteRangeRequest{Key: put.GetKey()}
		read := &pb.RangeRequest{Key: put.GetKey()}
		onlyRead := &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: read}}
		onlyDelete := &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: deletion}}
		nested := &pb.RequestOp{Request: &pb.RequestOp_RequestTxn{RequestTxn: &pb.TxnRequest{Success: []*pb.RequestOp{
			{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: []byte("nested")}}},
		}}}}

		p, err := c.Put(ctx, put)
		check("put", member, p.GetHeader(), err)
		r, err := c.Range(ctx, read)
		check("range", own, r.GetHeader(), err)
		for want, ops := range map[int][]*pb.RequestOp{own: {onlyRead}, member: {onlyRead, onlyDelete, nested}} {
			txn, err := c.Txn(ctx, &pb.TxnRequest{Success: ops})
			check("txn", want, txn.GetHeader(), err)
			txn, err = c.Txn(ctx, &pb.TxnRequest{Failure: ops})
			check("txn", want, txn.GetHeader(), err)
		}
		d, err := c.DeleteRange(ctx, deletion)
		check("delete", member, d.GetHeader(), err)
		g, err := c.LeaseGrant(ctx, &pb.LeaseGrantRequest{TTL: 1000})
		check("grant", member, g.GetHeader(), err)
		v, err := c.LeaseRevoke(ctx, &pb.LeaseRevokeRequest{ID: g.GetID()})
		check("revoke", member, v.GetHeader(), err)
		compacted, err := c.Compact(ctx, &pb.CompactionRequest{Revision: p.GetHeader().GetRevision()})
		check("compact", member, compacted.GetHeader(), err)
	}
	if got := c.Stats(); got.Unknown != 0 || got.NotApplied != 0 {
		t.Errorf("got %+v, want no write that has failed", got)
	}
}

// writeTimeout is that of a write of fanoutd to etcd.
const writeTimeout = 8 * time.Second

// load is writers that each put new keys, one after the other.
type load struct {
	c       *cluster
	acked   atomic.Int64
	stop    context.CancelFunc
	running sync.WaitGroup

	mu       sync.Mutex
	outcomes map[string]error // guarded by mu, by key
}

const writers = 8

func (c *cluster) load(t testing.TB, name string) *load {
	ctx, stop := context.WithCancel(t.Context())
	l := &load{c: c, stop: stop, outcomes: map[string]error{}}
	t.Cleanup(l.end)
	for w := range writers {
		l.running.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				key := fmt.Sprintf("%s-%d-%d", name, w, n)
				// As long as fanoutd waits for etcd. A write may end with it, as all outcomes are checked.
				call, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
				_, err := c.Put(call, put(key))
				cancel()
				l.mu.Lock()
				l.outcomes[key] = err
				l.mu.Unlock()
				if err == nil {
					l.acked.Add(1)
				}
			}
		})
	}
	return l
}

// await waits for so many further acknowledged writes.
func (l *load) await(t testing.TB, n int64) {
	t.Helper()
	until := l.acked.Load() + n
	poll.Until(t, "more writes are acknowledged", func() bool { return l.acked.Load() >= until })
}

func (l *load) end() {
	l.stop()
	l.running.Wait()
}

// check ends the load and compares its outcomes with what etcd contains.
func (l *load) check(t testing.TB) (acked, notApplied, unknown int) {
	t.Helper()
	l.end()
	for key, err := range l.outcomes {
		n := l.c.written(t, key)
		known, isKnown := errors.AsType[*leader.NotAppliedError](err)
		_, isUnknown := errors.AsType[*leader.UnknownOutcomeError](err)
		switch {
		case err == nil:
			acked++
			if n != 1 {
				t.Errorf("%s was acknowledged, and is written %d times", key, n)
			}
		case isKnown:
			notApplied++
			if n != 0 {
				t.Errorf("%s is written %d times, although: %v", key, n, known)
			}
		case isUnknown:
			unknown++
			if n > 1 {
				t.Errorf("%s is written %d times", key, n)
			}
			if status.Code(err) != codes.Unavailable {
				t.Errorf("got %v, want %v", err, codes.Unavailable)
			}
		default:
			t.Errorf("%s: got %v, want a known or an unknown outcome", key, err)
		}
	}
	return acked, notApplied, unknown
}

// While leaders are killed, no acknowledged write is lost and none is applied twice.
func TestLeaderDies(t *testing.T) {
	slow(t)
	c := start(t, "", nil)
	l := c.load(t, "dies")
	for _, victim := range []int{1, 2, 1} {
		c.lead(t, victim)
		l.await(t, 100)
		c.processes[victim].Kill(t)
		poll.Until(t, "there is another leader", func() bool { return c.leader() >= 0 && c.leader() != victim })
		l.await(t, 100)
		c.processes[victim].Start(t)
	}
	acked, notApplied, unknown := l.check(t) // on a busy machine, an election may take longer than a write waits
	if stats := c.Stats(); stats.SentAgain == 0 || int(stats.Unknown) != unknown {
		t.Errorf("got %+v with %d unknown outcomes, and %d known failures, want writes that were sent again", stats, unknown, notApplied)
	}
	t.Logf("%d writes were acknowledged, the outcome of %d is unknown, %d attempts were repeated", acked, unknown, c.Stats().SentAgain)
}

// The own member hands the leadership over and takes it back, and no write or read fails.
func TestLeadershipIsHandedOver(t *testing.T) {
	slow(t)
	c := startWith(t, patient, "", nil)
	l := c.load(t, "moves")
	reading, stop := context.WithCancel(poll.Context(t))
	var readers sync.WaitGroup
	for range writers {
		readers.Go(func() {
			for reading.Err() == nil {
				if _, err := c.Range(reading, &pb.RangeRequest{Key: []byte("key")}); err != nil && reading.Err() == nil {
					t.Errorf("read: %v", err)
				}
			}
		})
	}
	for _, member := range []int{own, 1, 2, 1, own, 2} {
		c.lead(t, member)
		l.await(t, 20)
	}
	stop()
	readers.Wait()
	if acked, notApplied, unknown := l.check(t); notApplied+unknown > 0 {
		t.Errorf("%d of %d writes have failed, and the outcome of %d is unknown", notApplied, acked, unknown)
	}
}

// The outcome of writes that a frozen leader has received is unknown. They end soon after there is another
// leader, and are not sent to that one, also not after the frozen one has applied them.
func TestLeaderFreezes(t *testing.T) {
	slow(t)
	c := start(t, "", nil)
	c.lead(t, 1)
	if _, err := c.Put(poll.Context(t), put("before")); err != nil { // the connection is open
		t.Fatal(err)
	}
	c.processes[1].Signal(t, syscall.SIGSTOP)
	var sending sync.WaitGroup
	const n = 20
	errs := make([]error, n)
	for i := range n {
		sending.Go(func() { _, errs[i] = c.Put(poll.Context(t), put(fmt.Sprintf("frozen-%d", i))) })
	}
	sending.Wait()
	if _, err := c.Put(poll.Context(t), put("after")); err != nil {
		t.Error(err)
	}
	if c.leader() == 1 {
		t.Error("the frozen member is still the leader")
	}
	c.processes[1].Signal(t, syscall.SIGCONT)
	c.lead(t, 1) // so it has read all that it had received
	unknown := 0
	for i, err := range errs {
		got := c.written(t, fmt.Sprintf("frozen-%d", i))
		if _, ok := errors.AsType[*leader.UnknownOutcomeError](err); ok {
			unknown++
		} else if err != nil || got != 1 { // a write that a busy machine has sent after the election
			t.Errorf("got %v, and the write was applied %d times, want an unknown outcome", err, got)
		}
		if got > 1 {
			t.Errorf("a write was applied %d times", got)
		}
	}
	if got := c.Stats(); int(got.Unknown) != unknown || unknown == 0 {
		t.Errorf("got %+v, and %d errors of unknown outcomes", got, unknown)
	}
}

// Without a majority no write is proposed. One that has time is sent when there is a leader again.
func TestWritesWithoutALeader(t *testing.T) {
	slow(t)
	c := start(t, "", nil)
	c.lead(t, own)
	c.processes[1].Kill(t)
	c.processes[2].Kill(t)
	poll.Until(t, "there is no leader", func() bool { return c.leader() < 0 })
	// There is no leader, so any timeout ends the write.
	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := c.Put(short, put("short"))
	if _, known := errors.AsType[*leader.NotAppliedError](err); !known {
		t.Errorf("got %v, want that the write was not applied", err)
	}
	patient := make(chan error, 1)
	before := c.Stats().SentAgain
	go func() {
		_, err := c.Put(poll.Context(t), put("patient"))
		patient <- err
	}()
	poll.Until(t, "the write was tried again", func() bool { return c.Stats().SentAgain > before })
	c.processes[1].Launch(t)
	c.processes[2].Start(t)
	if err := <-patient; err != nil {
		t.Error(err)
	}
	if short, patient := c.written(t, "short"), c.written(t, "patient"); short != 0 || patient != 1 {
		t.Errorf("the writes were applied %d and %d times, want 0 and 1", short, patient)
	}
}

// The own member forwards writes to a leader whose client URL cannot be reached.
func TestClientURLOfTheLeaderCannotBeReached(t *testing.T) {
	slow(t)
	c := start(t, "", nil)
	c.lead(t, 1)
	c.links[1].Cut()
	answered := func(member int) func() bool {
		return func() bool {
			resp, err := c.Put(poll.Context(t), put("key"))
			if _, unknown := errors.AsType[*leader.UnknownOutcomeError](err); err != nil && !unknown {
				t.Errorf("got %v, want that the write succeeds, or is interrupted when the link is cut", err)
			}
			return resp.GetHeader().GetMemberId() == uint64(c.ids[member])
		}
	}
	poll.Until(t, "the own member answers a write", answered(own))
	c.links[1].Heal()
	poll.Until(t, "the leader answers a write", answered(1))
	if c.Stats().SentAgain == 0 {
		t.Error("no write was sent again")
	}
}
