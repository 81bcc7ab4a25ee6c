package e2e

import (
	"context"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fanoutd/fanoutd/test/etcdproc"
)

// cluster is an etcd of some members, the ways that lead one server to them, and the
// ways that lead the other servers to them.
type cluster struct {
	members []*etcdproc.Member
	client  *clientv3.Client
	near    ways
	far     ways
}

func startCluster(t *testing.T, members int) *cluster {
	t.Helper()
	c := &cluster{members: etcdproc.StartCluster(t, members)}
	for _, m := range c.members {
		c.near = append(c.near, newLink(t, m.Address))
		c.far = append(c.far, newLink(t, m.Address))
	}
	c.client = dialEtcd(t, c.addresses()...)
	return c
}

func (c *cluster) addresses() []string {
	var all []string
	for _, m := range c.members {
		all = append(all, m.Address)
	}
	return all
}

// leader returns the member that leads. A round in which none does is tried again.
func (c *cluster) leader(t *testing.T) *etcdproc.Member {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	for ctx.Err() == nil {
		for _, m := range c.members {
			if s, err := c.client.Status(ctx, m.Address); err == nil && s.Leader == s.Header.GetMemberId() {
				return m
			}
		}
	}
	t.Fatal("no member of etcd leads")
	return nil
}

// majority returns the leader and as many others as it takes for the rest to be too
// few.
func (c *cluster) majority(t *testing.T) []*etcdproc.Member {
	t.Helper()
	all := []*etcdproc.Member{c.leader(t)}
	for _, m := range c.members {
		if m != all[0] && len(all) <= len(c.members)/2 {
			all = append(all, m)
		}
	}
	return all
}

func kill(t *testing.T, members []*etcdproc.Member) {
	t.Helper()
	for _, m := range members {
		m.Kill(t)
	}
}

// launch starts members that were ended, and returns when they serve.
func launch(t *testing.T, members []*etcdproc.Member) {
	t.Helper()
	for _, m := range members {
		m.Launch(t)
	}
	for _, m := range members {
		m.Await(t)
	}
}

// ways are the links to all members of an etcd, which are disturbed together.
type ways []*link

// endpoints returns the arguments for a server that goes these ways.
func (w ways) endpoints() []string {
	var args []string
	for _, l := range w {
		args = append(args, "--etcd-endpoints", "http://"+l.address)
	}
	return args
}

func (w ways) cut() {
	for _, l := range w {
		l.cut()
	}
}

func (w ways) freeze() {
	for _, l := range w {
		l.freeze()
	}
}

func (w ways) heal() {
	for _, l := range w {
		l.heal()
	}
}
