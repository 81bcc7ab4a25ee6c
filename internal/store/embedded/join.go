package embedded

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fanoutd/fanoutd/internal/store/etcdlog"
)

const (
	// joinTimeout limits one attempt to join.
	joinTimeout = 5 * time.Second

	// askTimeout limits one question to one member, and askRetry is the time between two.
	askTimeout = time.Second
	askRetry   = 50 * time.Millisecond
)

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
	client, err := p.connect(ctx, p.endpoints(via), log)
	if err != nil {
		return "", err
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
	if err := p.awaitKnown(ctx, added, log); err != nil {
		return "", err
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

// connect returns a client of members of the cluster.
func (p *Peers) connect(ctx context.Context, urls []string, log *slog.Logger) (*clientv3.Client, error) {
	config, err := p.TLS.Client()
	if err != nil {
		return nil, fmt.Errorf("configure TLS to the cluster: %w", err)
	}
	client, err := clientv3.New(clientv3.Config{
		Context: ctx, Endpoints: urls, TLS: config, DialOptions: p.TLS.authority(), DialTimeout: joinTimeout,
		Logger: etcdlog.New(log.With("component", "etcd-client"), nil),
	})
	if err != nil {
		return nil, fmt.Errorf("connect to the cluster: %w", err)
	}
	return client, nil
}

// awaitKnown returns once all members that answer know the new one. etcd compares its list with that of the first member
// that answers, and ends if that one does not have the new member yet.
func (p *Peers) awaitKnown(ctx context.Context, added *clientv3.MemberAddResponse, log *slog.Logger) error {
	for _, m := range added.Members {
		for _, url := range m.ClientURLs {
			if err := p.awaitKnownAt(ctx, url, added.Member.ID, log); err != nil {
				return fmt.Errorf("wait until %s knows of it: %w", cmp.Or(m.Name, url), err)
			}
		}
	}
	return nil
}

func (p *Peers) awaitKnownAt(ctx context.Context, url string, id uint64, log *slog.Logger) error {
	one, err := p.connect(ctx, []string{url}, log)
	if err != nil {
		return err
	}
	defer one.Close()
	for {
		asking, cancel := context.WithTimeout(ctx, askTimeout)
		list, err := one.MemberList(asking, clientv3.WithSerializable())
		cancel()
		if err != nil {
			return ctx.Err() // a member that does not answer now does not answer etcd either
		}
		if slices.ContainsFunc(list.Members, func(m *pb.Member) bool { return m.ID == id }) {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(askRetry):
		}
	}
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
