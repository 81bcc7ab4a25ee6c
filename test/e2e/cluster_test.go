package e2e

import (
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fanoutd/fanoutd/test/etcdproc"
	"github.com/fanoutd/fanoutd/test/poll"
)

// cluster is an etcd of several members. One server reaches it through the near links,
// and the other servers through the far links.
type cluster struct {
	members []*etcdproc.Member
	client  *clientv3.Client
	near    links
	far     links
	peers   []peerLink // empty if the members reach each other directly
}

// peerLink is the link through which one member reaches another.
type peerLink struct {
	*link
	from, to int
}

func startCluster(t *testing.T, members int) *cluster {
	t.Helper()
	return newCluster(t, etcdproc.StartCluster(t, members))
}

// startLinkedCluster starts a cluster with a link between any two members, for each
// direction in which connections are opened.
func startLinkedCluster(t *testing.T, members int) *cluster {
	t.Helper()
	var peers []peerLink
	c := newCluster(t, etcdproc.StartRoutedCluster(t, members, func(from, to int, address string) string {
		peers = append(peers, peerLink{newLink(t, address), from, to})
		return peers[len(peers)-1].address
	}))
	c.peers = peers
	return c
}

func newCluster(t *testing.T, members []*etcdproc.Member) *cluster {
	t.Helper()
	c := &cluster{members: members}
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

// leader returns the leader. If the cluster has none, it asks again.
func (c *cluster) leader(t *testing.T) *etcdproc.Member {
	t.Helper()
	ctx := poll.Context(t)
	for ctx.Err() == nil {
		for _, m := range c.members {
			if s, err := c.client.Status(ctx, m.Address); err == nil && s.Leader == s.Header.GetMemberId() {
				return m
			}
		}
	}
	t.Fatal("etcd has no leader")
	return nil
}

// majority returns the leader and enough other members that the rest is no majority.
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

// around returns the links between a member and the others.
func (c *cluster) around(member int) links {
	var all links
	for _, l := range c.peers {
		if l.from == member || l.to == member {
			all = append(all, l.link)
		}
	}
	return all
}

// heal heals all links.
func (c *cluster) heal() {
	c.near.heal()
	c.far.heal()
	for _, l := range c.peers {
		l.heal()
	}
}

func kill(t *testing.T, members []*etcdproc.Member) {
	t.Helper()
	for _, m := range members {
		m.Kill(t)
	}
}

// launch starts stopped members, and returns when they serve.
func launch(t *testing.T, members []*etcdproc.Member) {
	t.Helper()
	for _, m := range members {
		m.Launch(t)
	}
	for _, m := range members {
		m.Await(t)
	}
}

// links are the links to all members of an etcd. Tests disturb them together.
type links []*link

// endpoints returns the arguments for a server that connects through these links.
func (w links) endpoints() []string {
	var args []string
	for _, l := range w {
		args = append(args, "--etcd-endpoints", "http://"+l.address)
	}
	return args
}

func (w links) cut() {
	for _, l := range w {
		l.cut()
	}
}

func (w links) freeze() {
	for _, l := range w {
		l.freeze()
	}
}

func (w links) halve(d direction) {
	for _, l := range w {
		l.halve(d)
	}
}

func (w links) slow(delay time.Duration) {
	for _, l := range w {
		l.slow(delay)
	}
}

func (w links) heal() {
	for _, l := range w {
		l.heal()
	}
}
