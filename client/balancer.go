package client

import (
	"context"
	"sync/atomic"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/balancer/base"
)

// balancerName is the policy by which requests are spread: in turn over all servers
// that can be reached, as gRPC's round_robin does it, but a watch can say which one
// it would rather not have again.
const balancerName = "fanoutd_spread"

func init() {
	balancer.Register(base.NewBalancerBuilder(balancerName, spread{}, base.Config{}))
}

// spread makes pickers.
type spread struct{}

// Build implements base.PickerBuilder.
func (spread) Build(info base.PickerBuildInfo) balancer.Picker {
	if len(info.ReadySCs) == 0 {
		return base.NewErrPicker(balancer.ErrNoSubConnAvailable)
	}
	p := &picker{}
	for conn, ready := range info.ReadySCs {
		p.servers = append(p.servers, server{conn, ready.Address.Addr})
	}
	return p
}

type server struct {
	conn    balancer.SubConn
	address string
}

type picker struct {
	servers []server
	turn    atomic.Uint32
}

// Pick implements balancer.Picker.
func (p *picker) Pick(info balancer.PickInfo) (balancer.PickResult, error) {
	choice := choiceOf(info.Ctx)
	var s server
	for range 2 {
		s = p.servers[int(p.turn.Add(1))%len(p.servers)]
		if s.address != choice.avoid {
			break
		}
	}
	choice.made(s.address)
	return balancer.PickResult{SubConn: s.conn}, nil
}

// choice is how a watch takes part in the choice of its server.
type choice struct {
	avoid  string // the server to take only if there is no other
	picked atomic.Pointer[string]
}

type choiceKey struct{}

// withChoice returns a context whose request takes part.
func withChoice(ctx context.Context, c *choice) context.Context {
	return context.WithValue(ctx, choiceKey{}, c)
}

func choiceOf(ctx context.Context) *choice {
	if c, ok := ctx.Value(choiceKey{}).(*choice); ok {
		return c
	}
	return &choice{}
}

func (c *choice) made(address string) { c.picked.Store(&address) }

// server returns the address of the server that was chosen, "" if none was.
func (c *choice) server() string {
	if s := c.picked.Load(); s != nil {
		return *s
	}
	return ""
}
