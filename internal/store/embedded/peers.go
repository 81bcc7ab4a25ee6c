package embedded

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/google/uuid"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"
	"go.etcd.io/etcd/server/v3/features"
	"go.uber.org/zap"

	"github.com/fanoutd/fanoutd/internal/object"
)

// Peers makes an etcd a member of a cluster of several. docs/dev/cluster.md has the rules after
// which the caller chooses how it begins.
type Peers struct {
	Name         string // of this member
	Peer, Client string // host:port at which the other members, and the clients of this one, reach it
	ListenPeer   string // ip:port
	ListenClient string // ip:port
	TLS          TLSFiles

	// Majority is how many members must vote before this one accepts writes.
	Majority int

	// Join is the members of an existing cluster, as [Join] returns them. A new directory without it
	// becomes a cluster of one member. etcd does not read it if there is data.
	Join string
}

// url returns the URL of an address of a member.
func (p *Peers) url(address string) url.URL { return url.URL{Scheme: p.TLS.scheme(), Host: address} }

// configure adapts the configuration of a single member.
func (p *Peers) configure(c *embed.Config, log *zap.Logger) error {
	c.Name = p.Name
	c.ListenPeerUrls, c.AdvertisePeerUrls = []url.URL{p.url(p.ListenPeer)}, []url.URL{p.url(p.Peer)}
	c.ListenClientUrls, c.AdvertiseClientUrls = []url.URL{p.url(p.ListenClient)}, []url.URL{p.url(p.Client)}
	c.PeerTLSInfo, c.ClientTLSInfo = p.TLS.info(), p.TLS.info()
	c.InitialCluster, c.InitialClusterToken = c.InitialClusterFromName(p.Name), uuid.NewString()
	if p.Join != "" {
		c.InitialCluster, c.ClusterState = p.Join, embed.ClusterStateFlagExisting
	}
	// Slow members need older entries, and a snapshot of the leader is not one of this log.
	defaults := embed.NewConfig()
	c.SnapshotCatchUpEntries, c.MaxWalFiles = defaults.SnapshotCatchUpEntries, defaults.MaxWalFiles
	c.TickMs, c.ElectionMs = defaults.TickMs, defaults.ElectionMs
	gate := features.NewDefaultServerFeatureGate(p.Name, log)
	settable, ok := gate.(interface {
		SetFromMap(values map[string]bool) error
	})
	if !ok {
		return errors.New("cannot turn on etcd's checks for corruption")
	}
	// The members compare their data before they start, and after each compaction.
	if err := settable.SetFromMap(map[string]bool{string(features.InitialCorruptCheck): true, string(features.CompactHashCheck): true}); err != nil {
		return fmt.Errorf("turn on etcd's checks for corruption: %w", err)
	}
	c.ServerFeatureGate = gate
	return nil
}

// The times of waiting for other members.
const (
	sayWaiting   = 10 * time.Second       // after which a start that waits for a majority is logged
	promoteRetry = 300 * time.Millisecond // between two requests to become a voter

	// takeAddressAttempts is how often a change of the own address is tried. Raft may drop one.
	takeAddressAttempts = 3
)

// awaitMajority returns once this member has published its name and addresses. That needs a majority,
// so it has then caught up with a leader once.
func (m *Member) awaitMajority(ctx context.Context) error {
	say := time.NewTimer(sayWaiting)
	defer say.Stop()
	for {
		select {
		case <-m.etcd.Server.ReadyNotify():
			return nil
		case <-say.C:
			m.log.Warn("waiting until a majority of the cluster answers", "members", memberNames(m.etcd.Server.Cluster().Members()))
		case <-m.etcd.Server.StopNotify():
			return errStopped
		case <-m.fatal.Happened.Done():
			return m.fatal.First()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// errStopped is the end of an etcd that nothing in this process has stopped. etcd itself logs why.
var errStopped = errors.New("etcd has stopped by itself: if this server was removed from the cluster, empty its data directory to join again")

func memberNames(members []*membership.Member) (names []string) {
	for _, m := range members {
		names = append(names, m.Name+" "+fmt.Sprint(m.PeerURLs))
	}
	return names
}

// takeAddress gives the only member of a cluster the address at which others reach it. A single server
// that grows did not have one. For a member of several, a difference is only logged: the address may
// be about to change on purpose.
func (m *Member) takeAddress(ctx context.Context, p *Peers) error {
	listed := p.url(p.Peer)
	members := m.etcd.Server.Cluster().Members()
	own := m.etcd.Server.Cluster().Member(m.etcd.Server.MemberID())
	if own == nil || slices.Contains(own.PeerURLs, listed.String()) {
		return nil
	}
	if len(members) > 1 {
		m.log.Warn("the address of this server in the cluster is not the configured one: run fanoutctl cluster update",
			"name", p.Name, "address", own.PeerURLs, "configured", listed.String())
		return nil
	}
	var err error
	for range takeAddressAttempts {
		if err = m.UpdateMember(ctx, uint64(own.ID), listed.String()); err == nil || ctx.Err() != nil {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("change the address of the only member: %w", err)
	}
	m.log.Info("this server now is the first of several", "name", p.Name, "address", listed.String())
	return nil
}

// becomeVoter asks for the promotion of this member until it votes, or ctx is done.
func (m *Member) becomeVoter(ctx context.Context) {
	ticker := time.NewTicker(promoteRetry)
	defer ticker.Stop()
	for m.isLearner() {
		// etcd passes the request on to the leader, which knows how far this member is.
		_, err := m.etcd.Server.PromoteMember(ctx, uint64(m.etcd.Server.MemberID()))
		if err != nil {
			m.log.Debug("this server does not vote yet", "reason", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
	m.log.Info("this server votes", "members", memberNames(m.etcd.Server.Cluster().Members()))
}

// isLearner reports whether this member is in the list of members and does not vote. etcd's own method
// ends the process if the member has been removed.
func (m *Member) isLearner() bool {
	own := m.etcd.Server.Cluster().Member(m.etcd.Server.MemberID())
	return own != nil && own.IsLearner
}

// reportStop reports an error if etcd stops before ctx is done.
func (m *Member) reportStop(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-m.etcd.Server.StopNotify():
		if ctx.Err() == nil {
			m.fatal.Report(errStopped)
		}
	}
}

// HasLeader reports whether this member knows the leader of its cluster. A member that is cut off from the majority
// notices it after an election timeout.
func (m *Member) HasLeader() bool { return !m.several || m.etcd.Server.Leader() != 0 }

// Formed reports whether enough members vote, so that this one accepts writes.
func (m *Member) Formed() bool { return m.checkFormed() == nil }

// checkFormed fails with [*object.FormingError] until enough members vote. It then costs nothing
// more, and holds for the life of the process.
func (m *Member) checkFormed() error {
	if m.formed.Load() {
		return nil
	}
	voters := 0
	for _, member := range m.etcd.Server.Cluster().Members() {
		if !member.IsLearner {
			voters++
		}
	}
	if voters < m.majority {
		return &object.FormingError{Voters: voters, Needed: m.majority}
	}
	if m.formed.CompareAndSwap(false, true) {
		m.log.Info("a majority of the servers votes: writes are accepted", "voters", voters)
	}
	return nil
}
