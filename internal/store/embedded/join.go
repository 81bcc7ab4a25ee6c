package embedded

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fanoutd/fanoutd/internal/store/etcdlog"
)

// joinTimeout limits one attempt to join.
const joinTimeout = 5 * time.Second

// DataGoneError means that a server without data is a member already. Under its old id, it would
// have forgotten what it has acknowledged.
type DataGoneError struct {
	Name   string
	Member uint64
}

func (e *DataGoneError) Error() string {
	return fmt.Sprintf("%s is a member of the cluster already (%x), and its data is gone: run fanoutctl cluster replace %s", e.Name, e.Member, e.Name)
}

// Add adds this server, which has no data, to a cluster as a member that does not vote yet. Via are
// addresses of clients of members that have answered, and listed the addresses at which any members are
// configured to serve each other. It returns the members, for [Peers.Join].
//
// Errors other than [*DataGoneError] may pass: Add may be called again.
func (p *Peers) Add(ctx context.Context, cluster uint64, via, listed []string, log *slog.Logger) (members string, err error) {
	ctx, cancel := context.WithTimeout(ctx, joinTimeout)
	defer cancel()
	config, err := p.TLS.Client()
	if err != nil {
		return "", fmt.Errorf("configure TLS to the cluster: %w", err)
	}
	client, err := clientv3.New(clientv3.Config{
		Context: ctx, Endpoints: p.endpoints(via), TLS: config, DialOptions: p.TLS.authority(), DialTimeout: joinTimeout,
		Logger: etcdlog.New(log.With("component", "etcd-client"), nil),
	})
	if err != nil {
		return "", fmt.Errorf("connect to the cluster: %w", err)
	}
	defer client.Close()
	list, err := client.MemberList(ctx) // linearizable: a member that lags might not know this one
	if err != nil {
		return "", fmt.Errorf("list its members: %w", err)
	}
	if id := list.Header.GetClusterId(); id != cluster {
		return "", fmt.Errorf("%s belong to cluster %x", strings.Join(via, ", "), id)
	}
	own := p.url(p.Peer)
	for _, m := range list.Members {
		switch {
		case m.Name != p.Name && !slices.Contains(m.PeerURLs, own.String()):
			if m.IsLearner {
				// etcd allows one at a time, and a change of members beside another one is lost.
				return "", fmt.Errorf("%s, which joins first", cmp.Or(m.Name, fmt.Sprint(m.PeerURLs)))
			}
		case m.IsLearner && m.Name == "":
			// It never became ready, so it never voted. It may have entries that are gone now.
			log.Info("removing what is left of an interrupted start", "member", fmt.Sprintf("%x", m.ID))
			if _, err := client.MemberRemove(ctx, m.ID); err != nil {
				return "", fmt.Errorf("remove what is left of an interrupted start: %w", err)
			}
		default:
			return "", &DataGoneError{p.Name, m.ID}
		}
	}
	if len(list.Members) == 1 && !p.reachable(list.Members[0].PeerURLs, listed) {
		return "", fmt.Errorf("its only member has not taken its address yet")
	}
	added, err := client.MemberAddAsLearner(ctx, []string{own.String()})
	if err != nil {
		return "", fmt.Errorf("join it: %w", err)
	}
	var all []string
	for _, m := range added.Members {
		name := fmt.Sprintf("%x", m.ID) // etcd compares only the addresses of the others
		if m.ID == added.Member.ID {
			name = p.Name
		}
		for _, url := range m.PeerURLs {
			all = append(all, name+"="+url)
		}
	}
	return strings.Join(all, ","), nil
}

// endpoints returns the URLs of addresses of clients.
func (p *Peers) endpoints(addresses []string) (urls []string) {
	for _, address := range addresses {
		u := p.url(address)
		urls = append(urls, u.String())
	}
	return urls
}

// reachable reports whether one of the URLs has a listed address.
func (p *Peers) reachable(urls, listed []string) bool {
	return slices.ContainsFunc(p.endpoints(listed), func(u string) bool { return slices.Contains(urls, u) })
}
