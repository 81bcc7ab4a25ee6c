package client

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/balancer/base"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/status"
)

// balancerName is the load-balancing policy of clients. It works like gRPC's
// round_robin, but a watch can name a server that it prefers to avoid.
const balancerName = "fanoutd_round_robin"

func init() { balancer.Register(balancerBuilder{}) }

type balancerBuilder struct{}

// Name implements balancer.Builder.
func (balancerBuilder) Name() string { return balancerName }

// Build implements balancer.Builder.
func (balancerBuilder) Build(conn balancer.ClientConn, o balancer.BuildOptions) balancer.Balancer {
	b := &replacingBalancer{generations: map[string]int{}}
	b.base = base.NewBalancerBuilder(balancerName, b, base.Config{}).Build(lockedConn{conn, &b.mu}, o)
	return b
}

// replacingBalancer can replace the connection to a server. Streams on the old connection go on.
type replacingBalancer struct {
	mu          sync.Mutex // gRPC and replace must not call base at the same time
	base        balancer.Balancer
	state       balancer.ClientConnState // guarded by mu
	generations map[string]int           // how often a connection was replaced, by address; guarded by mu
}

// UpdateClientConnState implements balancer.Balancer.
func (b *replacingBalancer) UpdateClientConnState(s balancer.ClientConnState) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.state = s
	known := map[string]bool{}
	for _, a := range s.ResolverState.Addresses {
		known[a.Addr] = true
	}
	maps.DeleteFunc(b.generations, func(address string, _ int) bool { return !known[address] })
	return b.update()
}

// generationKey is the key of an attribute of addresses.
type generationKey struct{}

// update passes the addresses on. If the attributes of an address have changed, base opens a connection to
// it, and closes the old one after its last stream. The caller holds mu.
func (b *replacingBalancer) update() error {
	s := b.state
	s.ResolverState.Addresses = slices.Clone(s.ResolverState.Addresses)
	for i, a := range s.ResolverState.Addresses {
		if n := b.generations[a.Addr]; n > 0 {
			s.ResolverState.Addresses[i].Attributes = a.Attributes.WithValue(generationKey{}, n)
		}
	}
	return b.base.UpdateClientConnState(s)
}

// replace opens another connection to a server, unless that has happened since the generation.
func (b *replacingBalancer) replace(address string, generation int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	isKnown := slices.ContainsFunc(b.state.ResolverState.Addresses, func(a resolver.Address) bool { return a.Addr == address })
	if isKnown && b.generations[address] == generation {
		b.generations[address]++
		_ = b.update() // it fails only without addresses
	}
}

// ResolverError implements balancer.Balancer.
func (b *replacingBalancer) ResolverError(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.base.ResolverError(err)
}

// UpdateSubConnState implements balancer.Balancer. gRPC calls the state listeners instead.
func (b *replacingBalancer) UpdateSubConnState(balancer.SubConn, balancer.SubConnState) {}

// ExitIdle implements balancer.Balancer. The base balancer is never idle.
func (b *replacingBalancer) ExitIdle() {}

// Close implements balancer.Balancer. gRPC closes the connections.
func (b *replacingBalancer) Close() {}

// lockedConn calls the state listeners of connections with the mutex held.
type lockedConn struct {
	balancer.ClientConn
	mu *sync.Mutex
}

// NewSubConn implements balancer.ClientConn.
func (c lockedConn) NewSubConn(addresses []resolver.Address, o balancer.NewSubConnOptions) (balancer.SubConn, error) {
	listen := o.StateListener
	o.StateListener = func(s balancer.SubConnState) {
		c.mu.Lock()
		defer c.mu.Unlock()
		listen(s)
	}
	//lint:ignore SA1019 it is deprecated only for several addresses
	return c.ClientConn.NewSubConn(addresses, o)
}

// Build implements base.PickerBuilder.
func (b *replacingBalancer) Build(info base.PickerBuildInfo) balancer.Picker {
	if len(info.ReadySCs) == 0 {
		return base.NewErrPicker(balancer.ErrNoSubConnAvailable)
	}
	p := &picker{}
	for conn, ready := range info.ReadySCs {
		generation, _ := ready.Address.Attributes.Value(generationKey{}).(int)
		p.servers = append(p.servers, readyServer{conn, ready.Address.Addr, generation, b})
	}
	return p
}

// readyServer is a server with an open connection.
type readyServer struct {
	conn       balancer.SubConn
	address    string
	generation int // of the connection
	balancer   *replacingBalancer
}

// picker picks the ready servers in turn. gRPC makes a new one whenever they change.
type picker struct {
	servers []readyServer
	picks   atomic.Uint32
}

// Pick implements balancer.Picker.
func (p *picker) Pick(info balancer.PickInfo) (balancer.PickResult, error) {
	choice := serverChoiceOf(info.Ctx)
	if choice.only != "" {
		return p.pickOnly(choice.only)
	}
	var s readyServer
	for range 2 {
		// The modulus is taken of the unsigned number: int has 32 bits on some
		// platforms, where the upper half of the counter would be negative.
		s = p.servers[p.picks.Add(1)%uint32(len(p.servers))]
		if s.address != choice.avoid {
			break
		}
	}
	choice.picked.Store(&s)
	return balancer.PickResult{SubConn: s.conn}, nil
}

// pickOnly picks the server with an address. If it is not ready, the request fails at once.
func (p *picker) pickOnly(address string) (balancer.PickResult, error) {
	for _, s := range p.servers {
		if s.address == address {
			return balancer.PickResult{SubConn: s.conn}, nil
		}
	}
	return balancer.PickResult{}, status.Errorf(codes.Unavailable, "%s is not connected", address)
}

// serverChoice lets a watch influence and see the choice of its server. It travels in
// the context of the request.
type serverChoice struct {
	avoid  string // the address to pick only if there is no other
	only   string // the only address to pick; "": any
	picked atomic.Pointer[readyServer]
}

type serverChoiceKey struct{}

func withServerChoice(ctx context.Context, c *serverChoice) context.Context {
	return context.WithValue(ctx, serverChoiceKey{}, c)
}

// serverChoiceOf returns the choice in ctx, or a new one if there is none.
func serverChoiceOf(ctx context.Context) *serverChoice {
	if c, ok := ctx.Value(serverChoiceKey{}).(*serverChoice); ok {
		return c
	}
	return &serverChoice{}
}

// server returns the address of the server that was picked, or "" if none was.
func (c *serverChoice) server() string {
	if s := c.picked.Load(); s != nil {
		return s.address
	}
	return ""
}

// replace makes later streams use another connection, because the server is silent on this one.
func (c *serverChoice) replace() {
	if s := c.picked.Load(); s != nil {
		s.balancer.replace(s.address, s.generation)
	}
}
