package peer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/fanoutd/fanoutd/client"
	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// The systems of three machines. Unlike a single etcd here, their members call fsync, which costs little if
// the data is in memory.
const (
	FanoutdCluster      = "fanoutd-cluster"  // three fanoutd that are their own etcd cluster
	FanoutdsBeforeEtcds = "fanoutd-before-3" // three fanoutd, and an etcd cluster of three processes
	EtcdCluster         = "etcd-cluster"     // an etcd cluster of three processes
	members             = 3                  // of a cluster
	memberWait          = 2 * time.Minute    // until a member that has started works
	memberPoll          = 50 * time.Millisecond
	behind              = 1000 // entries that a member may be behind the others
)

// Clusters lists the systems of several machines.
var Clusters = []string{FanoutdCluster, FanoutdsBeforeEtcds, EtcdCluster}

// Member is a machine of a cluster.
type Member struct {
	Address string // for watchers
	Etcd    string // of its etcd, for clients

	servers []int // its processes, as indexes of Servers
}

// fanoutdCluster drives three fanoutd that run etcd together.
func fanoutdCluster(ctx context.Context, p *Peer, o Options) error {
	hosts, peerPort, clientPort, err := machines()
	if err != nil {
		return err
	}
	var list strings.Builder
	for i, host := range hosts {
		fmt.Fprintf(&list, "    node-%d: %s\n", i+1, net.JoinHostPort(host, peerPort))
	}
	for i, host := range hosts {
		name := fmt.Sprintf("fanoutd-%d", i+1)
		store := fmt.Sprintf("data-dir: %s\ncluster:\n  name: node-%d\n  client-port: %s\n  members:\n%s",
			filepath.Join(p.dir, name), i+1, clientPort, &list)
		if err := p.launchFanoutd(o, name, store); err != nil {
			return err
		}
		p.Members = append(p.Members, Member{p.Address, net.JoinHostPort(host, clientPort), []int{i}})
	}
	return p.fanoutdMembers(ctx)
}

// fanoutdsBeforeEtcds drives three etcds, and on the machine of each a fanoutd that knows all of them.
func fanoutdsBeforeEtcds(ctx context.Context, p *Peer, o Options) error {
	if err := p.launchEtcds(o); err != nil {
		return err
	}
	store := fmt.Sprintf("etcd-endpoints: [%s]\n", strings.Join(p.etcds(), ", "))
	for i := range p.Members {
		if err := p.launchFanoutd(o, fmt.Sprintf("fanoutd-%d", i+1), store); err != nil {
			return err
		}
		p.Members[i].Address = p.Address
		p.Members[i].servers = append(p.Members[i].servers, len(p.Servers)-1)
	}
	return p.fanoutdMembers(ctx)
}

// fanoutdMembers waits for the members, and adds a writer through all of their fanoutds.
func (p *Peer) fanoutdMembers(ctx context.Context) error {
	if err := p.awaitMembers(ctx); err != nil {
		return err
	}
	var addresses []string
	for _, m := range p.Members {
		addresses = append(addresses, m.Address)
	}
	c, err := client.New(strings.Join(addresses, ","), client.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		return fmt.Errorf("connect to the fanoutds: %w", err)
	}
	p.Writer = &fanoutdWriter{c, fanoutv1.NewStoreServiceClient(c.Conn())}
	return nil
}

// etcdCluster drives three etcds.
func etcdCluster(ctx context.Context, p *Peer, o Options) error {
	if err := p.launchEtcds(o); err != nil {
		return err
	}
	if err := p.awaitMembers(ctx); err != nil {
		return err
	}
	writer, err := newEtcdWriter(ctx, p.etcds()...)
	if err != nil {
		return err
	}
	p.Address, p.Writer, p.Positions, p.read = p.Members[members-1].Address, writer, writer, writer.read
	return nil
}

// launchEtcds starts three etcds, which are members of one cluster.
func (p *Peer) launchEtcds(o Options) error {
	hosts, peerPort, clientPort, err := machines()
	if err != nil {
		return err
	}
	var list []string
	for i, host := range hosts {
		list = append(list, fmt.Sprintf("node-%d=http://%s", i+1, net.JoinHostPort(host, peerPort)))
	}
	for i, host := range hosts {
		name, address := fmt.Sprintf("etcd-%d", i+1), net.JoinHostPort(host, clientPort)
		url, peerURL := "http://"+address, "http://"+net.JoinHostPort(host, peerPort)
		err := p.launch(name, address, o.Self, CommandEtcd,
			"--name", fmt.Sprintf("node-%d", i+1), "--data-dir", filepath.Join(p.dir, name),
			"--listen-client-urls", url, "--advertise-client-urls", url,
			"--listen-peer-urls", peerURL, "--initial-advertise-peer-urls", peerURL,
			"--initial-cluster", strings.Join(list, ","), "--log-level", "error",
		)
		if err != nil {
			return err
		}
		p.Metrics[name] = url + "/metrics"
		p.Members = append(p.Members, Member{address, address, []int{i}})
	}
	return nil
}

// machines returns the loopback hosts of three machines, and two ports that are free on all of them.
func machines() (hosts []string, peerPort, clientPort string, err error) {
	for i := range members {
		hosts = append(hosts, fmt.Sprintf("127.%d.%d.%d", 1+rand.IntN(200), rand.IntN(200), i+1))
	}
	port := firstPort + rand.IntN(lastPort-firstPort)
	peerPort, clientPort = strconv.Itoa(port), strconv.Itoa(port+1)
	for _, host := range hosts {
		for _, port := range []string{peerPort, clientPort} {
			l, err := net.Listen("tcp", net.JoinHostPort(host, port))
			if err != nil {
				return nil, "", "", fmt.Errorf("find free ports: %w", err)
			}
			l.Close()
		}
	}
	return hosts, peerPort, clientPort, nil
}

// etcds returns the addresses of the members for clients of etcd.
func (p *Peer) etcds() []string {
	var all []string
	for _, m := range p.Members {
		all = append(all, m.Etcd)
	}
	return all
}

// Kill ends the processes of a member without their cooperation.
func (p *Peer) Kill(member int) {
	for _, i := range p.Members[member].servers {
		p.Servers[i].Kill()
	}
	for _, i := range p.Members[member].servers {
		<-p.Servers[i].Exited()
	}
}

// Start starts a member again after Kill, and waits until all members work.
func (p *Peer) Start(ctx context.Context, member int) error {
	for _, i := range p.Members[member].servers {
		if err := p.relaunch(i); err != nil {
			return err
		}
	}
	return p.awaitMembers(ctx)
}

// Lead makes a member the leader.
func (p *Peer) Lead(ctx context.Context, member int) error {
	ctx, cancel := context.WithTimeout(ctx, memberWait)
	defer cancel()
	return p.until(ctx, fmt.Sprintf("member %d leads", member+1), func(ctx context.Context) error {
		leader, _, err := p.leader(ctx)
		if err != nil || leader == member {
			return err
		}
		at, err := etcdClient(p.Members[leader].Etcd)
		if err != nil {
			return err
		}
		defer at.Close()
		to, err := at.Status(ctx, p.Members[member].Etcd)
		if err != nil {
			return fmt.Errorf("ask for the id of the member: %w", err)
		}
		if _, err := at.MoveLeader(ctx, to.Header.GetMemberId()); err != nil {
			return fmt.Errorf("move the leadership: %w", err)
		}
		return errors.New("the leadership has just moved")
	})
}

// Leader returns the member that leads, and the term of Raft, which grows with each change of the leader. It
// waits until all members vote, agree about the leader, and are not far behind.
func (p *Peer) Leader(ctx context.Context) (member int, term uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, memberWait)
	defer cancel()
	err = p.until(ctx, "a member leads", func(ctx context.Context) (err error) {
		member, term, err = p.leader(ctx)
		return err
	})
	return member, term, err
}

// leader is Leader without the wait.
func (p *Peer) leader(ctx context.Context) (member int, term uint64, err error) {
	c, err := etcdClient(p.etcds()...)
	if err != nil {
		return 0, 0, err
	}
	defer c.Close()
	member = -1
	var leader, least, most uint64
	for i, m := range p.Members {
		s, err := c.Status(ctx, m.Etcd)
		switch {
		case err != nil:
			return 0, 0, fmt.Errorf("ask member %d for its state: %w", i+1, err)
		case s.Leader == 0 || s.IsLearner || leader != 0 && leader != s.Leader:
			return 0, 0, fmt.Errorf("member %d does not vote, or has another leader", i+1)
		}
		leader, term = s.Leader, s.RaftTerm
		if s.Header.GetMemberId() == leader {
			member = i
		}
		if i == 0 {
			least = s.RaftAppliedIndex
		}
		least, most = min(least, s.RaftAppliedIndex), max(most, s.RaftAppliedIndex)
	}
	if member < 0 || most-least > behind {
		return 0, 0, fmt.Errorf("no member leads, or one is %d entries behind", most-least)
	}
	return member, term, nil
}

func etcdClient(addresses ...string) (*clientv3.Client, error) {
	c, err := clientv3.New(clientv3.Config{Endpoints: addresses, Logger: zap.NewNop()})
	if err != nil {
		return nil, fmt.Errorf("connect to etcd: %w", err)
	}
	return c, nil
}

// awaitMembers waits until all members agree about the leader, and their fanoutds answer.
func (p *Peer) awaitMembers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, memberWait)
	defer cancel()
	return p.until(ctx, "all members work", func(ctx context.Context) error {
		if _, _, err := p.leader(ctx); err != nil {
			return err
		}
		for _, m := range p.Members {
			if m.Address == m.Etcd { // there is no fanoutd
				continue
			}
			if _, err := (positions{m.Address}).Position(ctx); err != nil {
				return err
			}
		}
		return nil
	})
}

// until calls a function until it succeeds.
func (p *Peer) until(ctx context.Context, what string, do func(ctx context.Context) error) error {
	retry := time.NewTicker(memberPoll)
	defer retry.Stop()
	for {
		attempt, cancel := context.WithTimeout(ctx, 5*time.Second)
		err := do(attempt)
		cancel()
		if err == nil {
			return nil
		}
		for _, s := range p.Servers {
			select {
			case <-s.Exited():
				return fmt.Errorf("%s exited: %s", s.Name, s.Log())
			default:
			}
		}
		select {
		case <-retry.C:
		case <-ctx.Done():
			return fmt.Errorf("wait until %s: %w", what, errors.Join(context.Cause(ctx), err))
		}
	}
}

// WriterAt returns a writer through the fanoutd of one member.
func (p *Peer) WriterAt(member int) (Writer, error) {
	return newFanoutdWriter(p.Members[member].Address)
}

// NotApplied reports whether a write has failed and is known not to be applied. Only fanoutd says so.
func NotApplied(err error) bool {
	return errors.Is(client.ErrorOf(err), client.ErrWriteNotApplied)
}

// Subscribe returns a client of the fanoutd of one member. The caller closes it.
func (p *Peer) Subscribe(member int) (*client.Client, error) {
	c, err := client.New(p.Members[member].Address, client.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		return nil, fmt.Errorf("connect to fanoutd: %w", err)
	}
	return c, nil
}
