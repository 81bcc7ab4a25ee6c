package cluster

import (
	"fmt"
	"slices"
	"strings"
)

// Directory is what a data directory contains.
type Directory struct {
	Path    string // of the data
	Cluster uint64 // the cluster to which it belongs; 0: it is empty
	Name    string // of the member; empty: unknown, because the member has not been ready yet
	Single  bool   // it belongs to a server that was no member of several
}

// State is what an answer says about the directory of a server.
type State int

const (
	Silent State = iota // no answer, which says nothing
	Empty               // no data: a lobby answers
	Member              // the data of a cluster: etcd answers
)

// Answer is the answer of a listed server.
type Answer struct {
	State   State
	Problem string // why a server is silent

	Cluster uint64 // of a member, whose etcd runs

	// A lobby also answers these.
	Process string // identifies the process
	List    string // digest of its list
	Founder string // the server from which it expects a new cluster
}

// Situation is all on which a decision depends.
type Situation struct {
	List      List
	Name      string // of this server
	Process   string // of this server
	Directory Directory
	Without   []string // servers without which a cluster may be founded if they do not answer
	Answers   map[string]Answer
}

// Action is what a server does.
type Action int

const (
	Wait  Action = iota
	Found        // a new cluster
	Join         // the cluster of others
	Start        // etcd with the data that is there
)

// Decision is an action and its details.
type Decision struct {
	Action  Action
	Cluster uint64   // to join
	Via     []Server // members of that cluster
	For     []string // the servers for which it waits
	Reason  string   // for which servers it waits, and why
}

// Refusal is the reason for which a server must not start.
type Refusal struct{ Reason string }

func (r *Refusal) Error() string { return r.Reason }

func refuse(format string, args ...any) error { return &Refusal{fmt.Sprintf(format, args...)} }

func wait(servers []string, format string, args ...any) (Decision, error) {
	return Decision{For: servers, Reason: fmt.Sprintf(format, args...)}, nil
}

// Decide returns what a server does. An error is a [Refusal].
func Decide(s Situation) (Decision, error) {
	if s.Directory.Cluster != 0 {
		return s.withData()
	}
	return s.withoutData()
}

// withData decides for a server that is a member. It does not wait for others: after a failure of all,
// each must start before a majority can answer.
func (s *Situation) withData() (Decision, error) {
	d := s.Directory
	if d.Name != "" && d.Name != s.Name && !d.Single {
		return Decision{}, refuse("the data directory belongs to %s, and this server is %s: use the directory of %s", d.Name, s.Name, s.Name)
	}
	clusters := s.clusters()
	if _, shared := clusters[d.Cluster]; len(clusters) > 0 && !shared {
		return Decision{}, refuse("the data directory belongs to cluster %x, but %s. If the data of this server is not needed, move it away, and the server joins: mv %s %s.old. "+
			"If it was restored, stop the others and do the same there first",
			d.Cluster, describe(clusters), d.Path, d.Path)
	}
	return Decision{Action: Start}, nil
}

// withoutData decides for a server with an empty directory.
func (s *Situation) withoutData() (Decision, error) {
	own, _ := s.List.Get(s.Name)
	switch a := s.Answers[s.Name]; {
	case a.Process == s.Process:
	case a.State == Silent:
		return wait([]string{s.Name}, "%s: its own address, %s, must lead to this server (%s)", s.Name, own.Peer, a.Problem)
	default:
		return wait([]string{s.Name}, "the address of %s, %s, to lead to this server: another one answers there", s.Name, own.Peer)
	}
	clusters := s.clusters()
	switch len(clusters) {
	case 0:
		return s.found()
	case 1:
	default:
		return Decision{}, refuse("the servers belong to different clusters: %s. Stop those with the data that is not needed, and move it away as on this server: mv %s %s.old",
			describe(clusters), s.Directory.Path, s.Directory.Path)
	}
	for cluster, names := range clusters {
		var via []Server
		for _, name := range names {
			server, _ := s.List.Get(name)
			via = append(via, server)
		}
		return Decision{Action: Join, Cluster: cluster, Via: via}, nil
	}
	panic("not reached")
}

// found decides if no server is known to have data.
func (s *Situation) found() (Decision, error) {
	if d := s.of(func(a Answer) bool { return a.State == Empty && a.List != s.List.digest() }); len(d) > 0 {
		return wait(d, "%s, which has other servers in cluster.members", strings.Join(d, ", "))
	}
	leftOut := s.leftOut()
	var silent, named []string
	for _, server := range s.List {
		if a := s.Answers[server.Name]; a.State == Silent && !slices.Contains(leftOut, server.Name) {
			silent, named = append(silent, fmt.Sprintf("%s (%s)", server.Name, a.Problem)), append(named, server.Name)
		}
	}
	founder := s.List.founder(leftOut)
	switch {
	case len(silent) > 0:
		return wait(named, "%s: a new cluster is founded once all listed servers answer", strings.Join(silent, ", "))
	case founder != s.Name && slices.Contains(s.Without, founder):
		return wait([]string{founder}, "%s, which founds the cluster, because it answers and so is not left out", founder)
	case founder != s.Name:
		return wait([]string{founder}, "%s, which founds the cluster", founder)
	}
	// The others do not know of Without, and wait for a server that is left out. This server counts, too: in its lobby, the
	// others may have read that it expects a server that has answered until now.
	for _, server := range s.List {
		if a := s.Answers[server.Name]; a.State == Empty && a.Founder != s.Name && (server.Name == s.Name || !slices.Contains(leftOut, a.Founder)) {
			return wait([]string{server.Name}, "%s, which expects %s to found the cluster", server.Name, a.Founder)
		}
	}
	return Decision{Action: Found}, nil
}

// leftOut returns the servers without which a cluster may be founded. One that answers is not left out, because it
// may leave this one out, and both would found.
func (s *Situation) leftOut() (names []string) {
	for _, name := range s.Without {
		if s.Answers[name].State == Silent {
			names = append(names, name)
		}
	}
	return names
}

// of returns the other servers whose answer satisfies a condition.
func (s *Situation) of(condition func(Answer) bool) (names []string) {
	for _, server := range s.List {
		if server.Name != s.Name && condition(s.Answers[server.Name]) {
			names = append(names, server.Name)
		}
	}
	return names
}

// clusters returns the clusters to which the other servers belong.
func (s *Situation) clusters() map[uint64][]string {
	clusters := map[uint64][]string{}
	for _, server := range s.List {
		if a := s.Answers[server.Name]; server.Name != s.Name && a.State == Member {
			clusters[a.Cluster] = append(clusters[a.Cluster], server.Name)
		}
	}
	return clusters
}

// describe formats clusters, the first server first.
func describe(clusters map[uint64][]string) string {
	var all []string
	for id, names := range clusters {
		verb := "belong"
		if len(names) == 1 {
			verb = "belongs"
		}
		all = append(all, fmt.Sprintf("%s %s to cluster %x", strings.Join(names, ", "), verb, id))
	}
	slices.Sort(all)
	return strings.Join(all, ", and ")
}
