package failover

import (
	"context"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fanoutd/fanoutd/internal/backoff"
)

// probe is a request for the status of one member.
type probe struct {
	member *member
	err    error // why it was not answered, set by the interceptor
}

// probeKey is the context key of a probe.
type probeKey struct{}

// Run probes the members until ctx is done. It returns when all its goroutines have ended.
func (m *Members) Run(ctx context.Context, conn *grpc.ClientConn) {
	var running, unsettled sync.WaitGroup
	defer running.Wait()
	for _, member := range m.all {
		unsettled.Add(1)
		running.Go(func() {
			m.probeRepeatedly(ctx, etcdserverpb.NewMaintenanceClient(conn), member, sync.OnceFunc(unsettled.Done))
		})
	}
	settled := make(chan struct{})
	running.Go(func() { unsettled.Wait(); close(settled) })
	select {
	case <-settled:
	case <-time.After(settleTime):
	case <-ctx.Done():
	}
	close(m.settled)
}

// probeRepeatedly probes a member until ctx is done. It calls settled when the member has a state.
func (m *Members) probeRepeatedly(ctx context.Context, client etcdserverpb.MaintenanceClient, of *member, settled func()) {
	defer settled()
	interval := connectInterval
	unanswered := 0
	for {
		begun := time.Now()
		now := m.probe(ctx, client, of)
		if now != unknown {
			settled()
			interval = probeInterval
		}
		if ctx.Err() != nil {
			return
		}
		if now != silent {
			m.set(of, now, begun)
			if unanswered >= lostProbes {
				m.log.Info("the member of etcd answers again, or its connection is closed", "endpoint", of.address)
			}
			unanswered = 0
			if !backoff.Sleep(ctx, interval) {
				return
			}
			continue
		}
		if m.heardSince(of, begun) {
			unanswered = 0
			continue
		}
		unanswered++
		m.set(of, silent, begun)
		if unanswered == lostProbes {
			m.log.Warn("a member of etcd does not answer", "endpoint", of.address)
		}
		if unanswered >= lostProbes {
			m.endCalls(of)
		}
	}
}

// probe returns the state of a member.
func (m *Members) probe(ctx context.Context, client etcdserverpb.MaintenanceClient, of *member) state {
	p := &probe{member: of}
	call, cancel := context.WithTimeout(context.WithValue(ctx, probeKey{}, p), probeTimeout)
	defer cancel()
	resp, err := client.Status(call, &etcdserverpb.StatusRequest{})
	if err == nil {
		err = p.err
	}
	switch code := status.Code(err); {
	case code == codes.OK:
		m.mu.Lock()
		of.version = resp.GetVersion()
		m.mu.Unlock()
		if resp.GetLeader() == 0 {
			return noLeader
		}
		return good
	case code == codes.Unavailable:
		return unknown // gRPC connects again
	case code == codes.DeadlineExceeded, code == codes.Canceled:
		if deadline, _ := call.Deadline(); time.Now().Before(deadline) {
			return unknown // refused, for example by a proxy
		}
		return silent
	}
	return good // it may not tell its status, but it answers
}

func (m *Members) heardSince(of *member, t time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return of.heard.After(t)
}

// set notes the state of a member, which a probe has found that began at the given time. If
// the state is bad, the streams of the member end, so that they continue at another member.
// They do not if nothing has been heard of the other members, either: then this process was
// paused, or etcd has lost its leader.
func (m *Members) set(of *member, now state, begun time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if before := of.state; before != now {
		of.state, of.badSince = now, begun
		m.log.Debug("the state of a member of etcd has changed", "endpoint", of.address, "before", before, "now", now)
	}
	if now == good || now == unknown {
		return
	}
	for c := range of.calls {
		if c.stream && m.another(c.tried, of.badSince) {
			c.cancel(errMoved)
		}
	}
}

// endCalls ends the requests that wait for a member. Streams wait for gRPC to close the
// connection if they cannot continue at another member.
func (m *Members) endCalls(of *member) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for c := range of.calls {
		if !c.stream {
			c.cancel(errLost)
		}
	}
}
