package failover

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// reads are the methods that may be sent to several members.
var reads = map[string]bool{
	etcdserverpb.KV_Range_FullMethodName:              true,
	etcdserverpb.Lease_LeaseTimeToLive_FullMethodName: true,
	etcdserverpb.Lease_LeaseLeases_FullMethodName:     true,
	etcdserverpb.Maintenance_Status_FullMethodName:    true,
	etcdserverpb.Auth_Authenticate_FullMethodName:     true,
}

// unary is an interceptor of requests. It runs after the interceptor of the etcd client,
// which repeats reads that end with UNAVAILABLE.
func (m *Members) unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if p, ok := ctx.Value(probeKey{}).(*probe); ok {
		// The etcd client would log and repeat a probe that fails.
		p.err = m.send(ctx, &call{pinned: p.member}, func(ctx context.Context) error {
			return invoke(ctx, method, req, reply, cc, opts...)
		})
		return nil
	}
	answer, ok := reply.(proto.Message)
	if !ok || !reads[method] {
		err := m.send(ctx, &call{}, func(ctx context.Context) error { return invoke(ctx, method, req, reply, cc, opts...) })
		return notRepeated(ctx, err)
	}
	if len(m.all) == 1 { // no other member can answer
		return m.send(ctx, &call{}, func(ctx context.Context) error { return invoke(ctx, method, req, reply, cc, opts...) })
	}
	return m.read(ctx, answer, func(ctx context.Context, answer proto.Message, again bool) error {
		if again {
			return invoke(ctx, method, req, answer, cc, withoutResults(opts)...)
		}
		return invoke(ctx, method, req, answer, cc, opts...)
	})
}

// notRepeated returns the error of a write. The etcd client sends any request again that ends
// with CANCELED or DEADLINE_EXCEEDED before its context is done. A proxy that resets a request
// causes that, and the write may have been applied. It does not repeat writes that end with
// UNAVAILABLE.
func notRepeated(ctx context.Context, err error) error {
	code := status.Code(err)
	if ctx.Err() == nil && (code == codes.Canceled || code == codes.DeadlineExceeded) {
		return status.Error(codes.Unavailable, err.Error())
	}
	return err
}

// withoutResults returns the options without those that write results, such as the peer.
func withoutResults(opts []grpc.CallOption) []grpc.CallOption {
	return slices.DeleteFunc(slices.Clone(opts), func(o grpc.CallOption) bool {
		switch o.(type) {
		case grpc.PeerCallOption, grpc.HeaderCallOption, grpc.TrailerCallOption:
			return true
		}
		return false
	})
}

// send sends a request to one member.
func (m *Members) send(ctx context.Context, c *call, invoke func(context.Context) error) error {
	sent := m.begin(ctx, c)
	defer m.end(c)
	err := invoke(sent)
	switch status.Code(err) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled:
		return asUnavailable(sent, err)
	default:
		m.answered(c) // if only with an error
	}
	return err
}

// read sends a request to one member, and to another one if the first does not answer in
// time.
func (m *Members) read(ctx context.Context, answer proto.Message, invoke func(ctx context.Context, answer proto.Message, again bool) error) error {
	all, cancel := context.WithCancel(ctx)
	defer cancel()
	first, endFirst := context.WithCancel(all)
	defer endFirst()
	members := &tried{}

	kind := answer.ProtoReflect().Type() // answer itself belongs to the first request
	var better proto.Message             // the answer of another member, once hedged is closed
	hedged := make(chan struct{})
	timer := time.AfterFunc(hedgeDelay, func() {
		defer close(hedged)
		other := kind.New().Interface()
		if m.hedge(all, members, func(ctx context.Context) error { return invoke(ctx, other, true) }) == nil {
			better = other
			endFirst()
		}
	})
	err := m.send(first, &call{tried: members}, func(ctx context.Context) error { return invoke(ctx, answer, false) })
	if timer.Stop() {
		return err
	}
	if first.Err() == nil && status.Code(err) != codes.Unavailable {
		cancel() // the first member has answered, if only with an error
		<-hedged
		return err
	}
	<-hedged
	if better == nil {
		return err
	}
	proto.Reset(answer)
	proto.Merge(answer, better)
	return nil
}

// errNoOther means that a read is not sent to another member.
var errNoOther = errors.New("no other member of etcd is in a good state")

// hedge sends a read to members that have not been tried, until one answers or there is no
// other one.
func (m *Members) hedge(ctx context.Context, members *tried, invoke func(context.Context) error) error {
	select {
	case m.hedges <- struct{}{}:
		defer func() { <-m.hedges }()
	default:
		return errNoOther
	}
	// A member may be in a good state although its connection has just been lost. The read then
	// goes to a member that was tried, so this ends after as many attempts as there are members.
	for range m.all {
		m.mu.Lock()
		possible := m.another(members, time.Time{})
		m.mu.Unlock()
		if !possible {
			break
		}
		err := m.send(ctx, &call{tried: members}, invoke)
		if err == nil || ctx.Err() != nil || status.Code(err) != codes.Unavailable {
			return err
		}
	}
	return errNoOther
}
