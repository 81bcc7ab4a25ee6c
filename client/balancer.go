package client

import (
	"context"
	"sync/atomic"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/balancer/base"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// balancerName is the load-balancing policy of clients. It works like gRPC's
// round_robin, but a watch can name a server that it prefers to avoid.
const balancerName = "fanoutd_round_robin"

func init() {
	balancer.Register(base.NewBalancerBuilder(balancerName, pickerBuilder{}, base.Config{}))
}

type pickerBuilder struct{}

// Build implements base.PickerBuilder.
func (pickerBuilder) Build(info base.PickerBuildInfo) balancer.Picker {
	if len(info.ReadySCs) == 0 {
		return base.NewErrPicker(balancer.ErrNoSubConnAvailable)
	}
	p := &picker{}
	for conn, ready := range info.ReadySCs {
		p.servers = append(p.servers, readyServer{conn, ready.Address.Addr})
	}
	return p
}

// readyServer is a server with an open connection.
type readyServer struct {
	conn    balancer.SubConn
	address string
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
	address := s.address
	choice.picked.Store(&address)
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
	picked atomic.Pointer[string]
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
		return *s
	}
	return ""
}
