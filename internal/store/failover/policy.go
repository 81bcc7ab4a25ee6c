package failover

import (
	"sync/atomic"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/balancer/endpointsharding"
	"google.golang.org/grpc/balancer/pickfirst"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"
)

// policyName is the name of the load balancing policy in service configurations.
const policyName = "fanoutd_etcd_failover"

func init() { balancer.Register(policy{}) }

// policy is a load balancing policy like round robin, which avoids members in a bad state.
// It keeps one connection to each member.
type policy struct{}

// Name implements [balancer.Builder].
func (policy) Name() string { return policyName }

// Build implements [balancer.Builder].
func (policy) Build(cc balancer.ClientConn, opts balancer.BuildOptions) balancer.Balancer {
	own := &pickerSetter{ClientConn: cc}
	return endpointsharding.NewBalancer(own, opts, balancer.Get(pickfirst.Name).Build, endpointsharding.Options{})
}

// pickerSetter replaces the picker of a state by one that knows the members.
type pickerSetter struct {
	balancer.ClientConn
	next atomic.Uint32 // of all pickers
}

// UpdateState implements [balancer.ClientConn].
func (s *pickerSetter) UpdateState(state balancer.State) {
	p := &picker{next: &s.next}
	for _, child := range endpointsharding.ChildStatesFromPicker(state.Picker) {
		if child.State.ConnectivityState == connectivity.Ready {
			p.ready = append(p.ready, connected{child.Endpoint.Addresses[0].Addr, child.State.Picker})
		}
	}
	if len(p.ready) > 0 {
		state.Picker = p
	}
	s.ClientConn.UpdateState(state)
}

// connected is a member whose connection is open.
type connected struct {
	address string
	picker  balancer.Picker // of its only connection
}

// picker picks one of the members whose connections are open.
type picker struct {
	ready []connected
	next  *atomic.Uint32
}

// Pick implements [balancer.Picker].
func (p *picker) Pick(info balancer.PickInfo) (balancer.PickResult, error) {
	first := int(p.next.Add(1))
	c, ok := info.Ctx.Value(callKey{}).(*call)
	if !ok {
		return p.ready[first%len(p.ready)].picker.Pick(info)
	}
	return c.pick(p.ready, first, info)
}

// errNotConnected is the answer to a probe of a member without a connection.
var errNotConnected = status.Error(codes.Unavailable, "not connected to this member of etcd")

// pick chooses the member for a call: the next one in the order of round robin, unless
// another one is better.
func (c *call) pick(ready []connected, first int, info balancer.PickInfo) (balancer.PickResult, error) {
	m := c.members
	m.mu.Lock()
	defer m.mu.Unlock()
	var best *connected
	var to *member
	rank := 0
	for i := range ready {
		candidate := &ready[(first+i)%len(ready)]
		member := m.find(candidate.address)
		if c.pinned != nil && member != c.pinned {
			continue
		}
		if r := c.rank(member); best == nil || r < rank {
			best, to, rank = candidate, member, r
		}
	}
	if best == nil {
		return balancer.PickResult{}, errNotConnected
	}
	result, err := best.picker.Pick(info)
	if err == nil && to != nil {
		m.assign(c, to)
	}
	return result, err
}

// rank returns a number that is lower the better a member is for a call.
func (c *call) rank(m *member) int {
	if m == nil {
		return 0
	}
	rank := 0
	switch m.state {
	case noLeader:
		rank = 1
	case silent:
		rank = 2
	}
	if c.tried.has(m) {
		rank += 3
	}
	return rank
}
