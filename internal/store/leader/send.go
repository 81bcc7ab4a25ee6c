package leader

import (
	"context"
	"errors"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fanoutd/fanoutd/internal/backoff"
)

// attempts spaces out the attempts to send a write. A new leader ends a wait.
var attempts = backoff.Backoff{First: 10 * time.Millisecond, Most: 500 * time.Millisecond}

// directAfter is the number of election timeouts after which the own member forwards writes to a leader
// that cannot be reached. If the leader were dead, the own member would have noticed after two of them.
const directAfter = 3

// Reasons why a write was not sent.
var (
	errNoLeader    = errors.New("etcd has no leader")
	errNoAddress   = errors.New("the client URL of etcd's leader is not known")
	errUnreachable = errors.New("no connection to etcd's leader")
	errStopping    = errors.New("the member of etcd stops")
)

// errDeposed is the cause of the end of a write that its former leader has not answered.
var errDeposed = errors.New("the member did not answer after another one has become the leader")

// sendKV sends a write of keys.
func sendKV[Req, Resp any](ctx context.Context, c *Client, method func(pb.KVClient, context.Context, Req, ...grpc.CallOption) (*Resp, error), r Req, opts []grpc.CallOption) (*Resp, error) {
	return send(ctx, c, func(ctx context.Context, to *connection) (*Resp, error) {
		if to == nil {
			return method(c.cfg.KV, ctx, r, opts...)
		}
		return method(to.kv, ctx, r, append(opts[:len(opts):len(opts)], grpc.WaitForReady(false))...)
	})
}

// sendLease sends a write of leases.
func sendLease[Req, Resp any](ctx context.Context, c *Client, method func(pb.LeaseClient, context.Context, Req, ...grpc.CallOption) (*Resp, error), r Req, opts []grpc.CallOption) (*Resp, error) {
	return send(ctx, c, func(ctx context.Context, to *connection) (*Resp, error) {
		if to == nil {
			return method(c.cfg.Leases, ctx, r, opts...)
		}
		return method(to.leases, ctx, r, append(opts[:len(opts):len(opts)], grpc.WaitForReady(false))...)
	})
}

// read sends a read to the own member. A change of the leader ends reads that wait for it with UNAVAILABLE;
// they are repeated until ctx is done. etcd's client does the same, but not within a process.
func read[Req, Resp any](ctx context.Context, c *Client, method func(pb.KVClient, context.Context, Req, ...grpc.CallOption) (*Resp, error), r Req, opts []grpc.CallOption) (*Resp, error) {
	waits := attempts
	for {
		l := c.leadership.Load()
		resp, err := method(c.cfg.KV, ctx, r, opts...)
		if err == nil || status.Code(err) != codes.Unavailable || c.stopping() || !c.wait(ctx, l, &waits) {
			return resp, err
		}
	}
}

// send sends a write until an attempt is not known to have failed, or ctx is done. Call makes one attempt,
// at the own member if there is no connection.
func send[Resp any](ctx context.Context, c *Client, call func(context.Context, *connection) (*Resp, error)) (*Resp, error) {
	waits := attempts
	for {
		l := c.leadership.Load()
		resp, err := attempt(ctx, c, l, call)
		if err == nil {
			return resp, nil
		}
		if _, unknown := errors.AsType[*UnknownOutcomeError](err); unknown {
			c.unknown.Add(1)
			return nil, err
		}
		failure, again := errors.AsType[*NotAppliedError](err)
		if !again {
			return nil, err
		}
		if errors.Is(failure.Err, errStopping) || !c.wait(ctx, l, &waits) {
			c.notApplied.Add(1)
			return nil, failure
		}
		c.sentAgain.Add(1)
	}
}

// wait waits before another attempt. It returns false if ctx ends first.
func (c *Client) wait(ctx context.Context, failed *leadership, waits *backoff.Backoff) bool {
	timer := time.NewTimer(waits.Next())
	defer timer.Stop()
	select {
	case <-failed.current.Done():
		waits.Reset()
	case <-timer.C:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// attempt sends a write once. Its error is nil, or what [judge] returns.
func attempt[Resp any](ctx context.Context, c *Client, l *leadership, call func(context.Context, *connection) (*Resp, error)) (*Resp, error) {
	to, err := c.target(ctx, l)
	if err != nil {
		return nil, &NotAppliedError{err}
	}
	mark := &sending{}
	sent, cancel := context.WithCancelCause(context.WithValue(ctx, sendingKey{}, mark))
	defer cancel(nil)
	defer context.AfterFunc(l.over, func() { cancel(context.Cause(l.over)) })()
	resp, err := call(sent, to)
	if err != nil && to != nil && !mark.sent.Load() {
		to.broke()
		return nil, &NotAppliedError{err}
	}
	if err = judge(err); err == nil {
		return resp, nil
	}
	if unknown, ok := errors.AsType[*UnknownOutcomeError](err); ok && errors.Is(context.Cause(sent), errDeposed) {
		unknown.Err = errors.Join(errDeposed, unknown.Err)
	}
	return nil, err
}

// target returns the connection over which a write is sent; nil is the own member. An error means that it
// cannot be sent now.
func (c *Client) target(ctx context.Context, l *leadership) (*connection, error) {
	if c.stopping() {
		return nil, errStopping
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	// etcd does not announce that a leader was lost.
	if leader := c.cfg.Raft.Leader(); leader == 0 || leader != l.leader {
		return nil, errNoLeader
	}
	if l.own {
		return nil, nil
	}
	if l.to == nil {
		c.askAddress()
		return nil, errNoAddress
	}
	opening, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(l.current, cancel)()
	direct := l.to.brokenFor() > directAfter*c.cfg.ElectionTimeout
	switch {
	case l.to.open(opening, !direct):
		return l.to, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case direct && c.cfg.Raft.Leader() == l.leader:
		return nil, nil
	}
	c.askAddress()
	return nil, errUnreachable
}

// stopping reports whether the own member stops, or the client is closed.
func (c *Client) stopping() bool {
	select {
	case <-c.cfg.Raft.StoppingNotify():
		return true
	default:
		return c.closed.Err() != nil
	}
}

// askAddress makes follow look for another address of the leader.
func (c *Client) askAddress() {
	select {
	case c.moved <- struct{}{}:
	default:
	}
}
