package cluster

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// Server is a configured server.
type Server struct {
	Name   string
	Peer   string // host:port at which it serves the other members
	Client string // host:port at which its etcd serves clients
}

// List is the configured servers, in the order of their names.
type List []Server

// Majority is how many of the servers are more than half.
func (l List) Majority() int { return len(l)/2 + 1 }

// Get returns the server with a name.
func (l List) Get(name string) (Server, bool) {
	i := slices.IndexFunc(l, func(s Server) bool { return s.Name == name })
	if i < 0 {
		return Server{}, false
	}
	return l[i], true
}

func namesOf(servers []Server) (names []string) {
	for _, s := range servers {
		names = append(names, s.Name)
	}
	return names
}

// digest identifies the list, so that servers with different lists notice.
func (l List) digest() string {
	h := sha256.New()
	for _, s := range l {
		fmt.Fprintf(h, "%s %s %s\n", s.Name, s.Peer, s.Client)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// founder returns the server that founds a new cluster: the first that is not left out. It is empty if
// all are left out.
func (l List) founder(without []string) string {
	for _, s := range l {
		if !slices.Contains(without, s.Name) {
			return s.Name
		}
	}
	return ""
}

// CheckWithout validates the servers without which a cluster is founded on the server with this name.
func (l List) CheckWithout(without []string, name string) error {
	for _, w := range without {
		if _, ok := l.Get(w); !ok {
			return fmt.Errorf("%s is not in cluster.members", w)
		}
	}
	if left := len(l) - len(without); left < l.Majority() {
		return fmt.Errorf("without %s, %d of %d servers are left, and no write is accepted before %d of them vote",
			strings.Join(without, ", "), left, len(l), l.Majority())
	}
	if f := l.founder(without); f != name {
		return fmt.Errorf("without %s, the founder is %s: run this command there", strings.Join(without, ", "), f)
	}
	return nil
}
