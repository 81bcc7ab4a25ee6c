package failover

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
)

const (
	// probeInterval is the time between the answer to a probe and the next probe.
	probeInterval = time.Second

	// probeTimeout is how long a member may take to answer a probe.
	probeTimeout = time.Second

	// settleTime is how long the members may take to connect and to answer after the start.
	// connectInterval is the time between two probes of a member until then.
	settleTime      = 2 * time.Second
	connectInterval = 100 * time.Millisecond

	// lostProbes is the number of unanswered probes in a row after which a member is lost.
	// Together with the interval before the first of them, this takes 5 s.
	lostProbes = 4

	// hedgeDelay is how long a read waits before it is sent to another member, too.
	hedgeDelay = time.Second

	// maxHedges limits the reads that are being sent to two members at the same time. A slow
	// etcd should not get twice the work.
	maxHedges = 64
)

// Members is the members of an etcd as a client sees them. Its methods may be called from
// any goroutine.
type Members struct {
	log     *slog.Logger
	hedges  chan struct{} // semaphore of the hedged reads
	all     []*member
	settled chan struct{} // closed when each member has a state, or after settleTime

	mu sync.Mutex // guards the state and the calls of all members
}

// member is one member of etcd, or a proxy in front of some.
type member struct {
	address string
	calls   map[*call]bool // guarded by Members.mu: those under way

	state    state     // guarded by Members.mu
	badSince time.Time // guarded by Members.mu: when the probe began that found it in a bad state
	heard    time.Time // guarded by Members.mu: when it last sent something
	version  string    // guarded by Members.mu: of etcd; empty: not known yet
}

// state is what the last probe has found.
type state uint8

const (
	unknown  state = iota // not probed yet, or not connected
	good                  // answers and has a leader
	noLeader              // answers, but can neither write nor read linearizably
	silent                // does not answer
)

// String returns the state as logs have it.
func (s state) String() string {
	return [...]string{unknown: "unknown", good: "good", noLeader: "no leader", silent: "silent"}[s]
}

// New returns members of unknown state. Addresses are host:port, as gRPC gets them.
func New(addresses []string, log *slog.Logger) *Members {
	m := &Members{log: log, hedges: make(chan struct{}, maxHedges), settled: make(chan struct{})}
	for _, address := range addresses {
		m.all = append(m.all, &member{address: address, calls: map[*call]bool{}})
	}
	return m
}

// DialOptions returns the options of a connection to the members.
func (m *Members) DialOptions() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithDisableServiceConfig(), // that of the etcd client asks for round robin
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig": [{"` + policyName + `": {}}]}`),
		grpc.WithChainUnaryInterceptor(m.unary),
		grpc.WithChainStreamInterceptor(m.stream),
	}
}

// find returns the member with the address, or nil.
func (m *Members) find(address string) *member {
	i := slices.IndexFunc(m.all, func(other *member) bool { return other.address == address })
	if i < 0 {
		return nil
	}
	return m.all[i]
}

// Versions returns the versions of etcd that the members had when they last answered. After the start
// it first waits for the members to answer, but not longer than settleTime or until ctx is done.
func (m *Members) Versions(ctx context.Context) (versions []string) {
	select {
	case <-m.settled:
	case <-ctx.Done():
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, member := range m.all {
		if member.version != "" {
			versions = append(versions, member.version)
		}
	}
	return versions
}

// Reasons to end a call before it is answered.
var (
	errLost  = errors.New("the member of etcd does not answer")
	errMoved = errors.New("another member of etcd is in a better state")
)

// call is a request or a stream on its way to a member.
type call struct {
	members *Members
	stream  bool
	pinned  *member // the only member that may answer; nil: any
	cancel  context.CancelCauseFunc
	tried   *tried

	member *member // guarded by Members.mu; nil: not sent yet
}

// tried has the members that a request was sent to.
type tried struct{ members []*member } // guarded by Members.mu

func (t *tried) has(m *member) bool { return slices.Contains(t.members, m) }

// callKey is the context key of a call.
type callKey struct{}

// begin returns a call and its context. The caller ends the call.
func (m *Members) begin(ctx context.Context, c *call) context.Context {
	ctx, c.cancel = context.WithCancelCause(ctx)
	c.members = m
	if c.tried == nil {
		c.tried = &tried{}
	}
	return context.WithValue(ctx, callKey{}, c)
}

// end ends a call, and notes a sign of life of its member if it was answered.
func (m *Members) end(c *call, answered bool) {
	c.cancel(nil)
	m.mu.Lock()
	defer m.mu.Unlock()
	if c.member == nil {
		return
	}
	delete(c.member.calls, c)
	if answered {
		c.member.heard = time.Now()
	}
}

// assign notes that a call is sent to a member. The caller holds m.mu.
func (m *Members) assign(c *call, to *member) {
	if c.member != nil {
		delete(c.member.calls, c) // gRPC repeats a call that did not reach the member
	}
	c.member = to
	c.tried.members = append(c.tried.members, to)
	to.calls[c] = true
}

// answered notes a sign of life of the member that a call was sent to.
func (m *Members) answered(c *call) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c.member != nil {
		c.member.heard = time.Now()
	}
}

// another reports whether a member that has not been tried is in a good state, and has
// sent something since the given time. The caller holds m.mu.
func (m *Members) another(than *tried, since time.Time) bool {
	return slices.ContainsFunc(m.all, func(other *member) bool {
		return other.state == good && !other.heard.Before(since) && !than.has(other)
	})
}
