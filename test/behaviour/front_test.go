package behaviour

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/fanoutd/fanoutd/test/grpcproxy"
	"github.com/fanoutd/fanoutd/test/poll"
)

// request is a request that a front has received.
type request struct {
	ctx    context.Context
	method string
	number int    // among those with the same method, from 1
	peer   string // the address of the client, which is another one for each connection
	token  string
	left   time.Duration // until its deadline; 0: it has none
	at     time.Time
}

// front is a server between a client and the real one, which can answer in its place.
type front struct {
	*grpcproxy.Proxy

	mu   sync.Mutex
	seen []request // guarded by mu
}

// front starts a front. It answers a request with the error of a function, or lets the real server answer it.
func (s *scene) front(answer func(request) error, opts ...grpc.ServerOption) *front {
	s.Helper()
	f := &front{}
	admit := func(ctx context.Context, method string) error {
		r := request{ctx: ctx, method: method, number: 1, at: time.Now()}
		if p, ok := peer.FromContext(ctx); ok {
			r.peer = p.Addr.String()
		}
		if md, ok := metadata.FromIncomingContext(ctx); ok && len(md.Get("authorization")) > 0 {
			r.token = md.Get("authorization")[0]
		}
		if deadline, ok := ctx.Deadline(); ok {
			r.left = time.Until(deadline)
		}
		f.mu.Lock()
		for _, before := range f.seen {
			if before.method == method {
				r.number++
			}
		}
		f.seen = append(f.seen, r)
		f.mu.Unlock()
		if answer == nil {
			return nil
		}
		return answer(r)
	}
	// Clients may ping as often as a real server allows.
	opts = append(opts, grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Second, PermitWithoutStream: true}))
	f.Proxy = grpcproxy.Start(s, grpcproxy.Config{Target: s.server, Admit: admit, Options: opts})
	return f
}

// requests returns the requests of a method so far.
func (f *front) requests(method string) (found []request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.seen {
		if r.method == method {
			found = append(found, r)
		}
	}
	return found
}

// until waits until a condition holds.
func (s *scene) until(what string, holds func() bool) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), patience) // poll.Patience
	defer cancel()
	if !poll.Wait(ctx, holds) {
		s.Fatalf("gave up waiting until %s", what)
	}
}

// hold does not answer a request.
func hold(r request) error {
	<-r.ctx.Done()
	return status.FromContextError(r.ctx.Err()).Err()
}

// proxyError is what a proxy answers: an error without a reason.
func proxyError(code codes.Code) error { return status.Error(code, "refused by a proxy") }

// gaps returns the times between requests.
func gaps(requests []request) (all []time.Duration) {
	for i := 1; i < len(requests); i++ {
		all = append(all, requests[i].at.Sub(requests[i-1].at))
	}
	return all
}
