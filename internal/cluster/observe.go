package cluster

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"slices"
	"strings"
)

// Observer asks the other servers while the etcd of this one runs, and has no majority yet. It belongs to
// one goroutine at a time.
type Observer struct {
	list    List
	own     string
	ask     *asker
	cluster uint64 // of this server; 0: not known yet
}

// NewObserver returns an observer for the server with a name, which belongs to a cluster; 0: to a new one.
func NewObserver(list List, own string, cluster uint64, clientTLS *tls.Config) *Observer {
	return &Observer{list, own, newAsker(clientTLS), cluster}
}

// View is what an observer has seen.
type View struct {
	// Awaited is which servers are missing for a majority. It has no servers if a majority runs etcd.
	Awaited Awaited

	// Foreign describes the servers that belong to another cluster; empty: there are none.
	Foreign string
}

// Look asks all servers once.
func (o *Observer) Look(ctx context.Context) View {
	answers := o.ask.all(ctx, o.list)
	o.cluster = cmp.Or(o.cluster, answers[o.own].Cluster)
	if o.cluster == 0 {
		return View{} // etcd does not run yet
	}
	s := Situation{List: o.list, Name: o.own, Answers: answers}
	foreign := s.clusters()
	delete(foreign, o.cluster)
	running, missing, reasons := 1, []string(nil), []string(nil)
	for _, server := range o.list {
		switch a := answers[server.Name]; {
		case server.Name == o.own:
		case a.State == Member && a.Cluster == o.cluster:
			running++
		default:
			missing, reasons = append(missing, server.Name), append(reasons, server.Name+" ("+a.describe()+")")
		}
	}
	v := View{}
	if running < o.list.Majority() {
		v.Awaited = Awaited{missing, strings.Join(reasons, ", ") + ": a majority of the servers must run"}
	}
	if len(foreign) > 0 {
		v.Foreign = describe(foreign)
	}
	return v
}

// describe returns why a server does not count as a running member.
func (a Answer) describe() string {
	switch {
	case a.State == Empty:
		return "no data yet"
	case a.State == Member:
		return fmt.Sprintf("cluster %x", a.Cluster)
	}
	return a.Problem
}

// Differences compares the configured list with the peer URLs of etcd's members, and returns what only one of them
// has. etcd's list is the true one; the configured one only says where to look.
func (o *Observer) Differences(members []string) (onlyListed, onlyMembers []string) {
	listed := map[string]bool{}
	for _, s := range o.list {
		listed[s.Peer] = true
		if !slices.ContainsFunc(members, func(url string) bool { return hostOf(url) == s.Peer }) {
			onlyListed = append(onlyListed, s.Name+" "+s.Peer)
		}
	}
	for _, url := range members {
		if !listed[hostOf(url)] {
			onlyMembers = append(onlyMembers, url)
		}
	}
	return onlyListed, onlyMembers
}

// hostOf returns the host and port of a URL of a member.
func hostOf(url string) string {
	_, host, _ := strings.Cut(url, "://")
	return host
}
