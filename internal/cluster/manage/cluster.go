package manage

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// nearEntries is how many committed entries a member may not have applied and still counts as healthy. A member
// that follows a busy leader has some on their way.
const nearEntries = 1000

// Cluster is the state of a cluster.
type Cluster struct {
	ID      uint64
	Version string // of etcd, whose features the cluster uses
	Self    uint64 // the member that answers
	Members []Member

	// Unconfirmed means that no majority has confirmed the list of members in time: it is what Self has last seen.
	Unconfirmed bool

	// OtherAlarms are the alarms that are not those of a member in the list.
	OtherAlarms []Alarm

	// Majority is how many members must vote before a configured server accepts writes. 0: this is a single server.
	Majority int
}

// Member is a member of a cluster.
type Member struct {
	ID                   uint64
	Name                 string // empty: it has never been started
	PeerURLs, ClientURLs []string
	Learner              bool // it does not vote yet
	Corrupt, NoSpace     bool // alarms

	Report  *Report // nil: it has not answered
	Problem string  // why it has not answered
}

// Label returns how people call a member: by its name, or its id without one.
func (m Member) Label() string { return cmp.Or(m.Name, fmt.Sprintf("%x", m.ID)) }

// Report is what a member says about itself.
type Report struct {
	Leader             uint64
	Committed, Applied uint64 // entries of the log
	EtcdVersion        string

	Database, InUse, Quota int64 // bytes

	// A member that is no server of fanoutd does not know these.
	Version            string
	DiskFree           int64     // -1: unknown
	DiskFull           bool      // puts are refused
	CertificateExpires time.Time // zero: it has none
}

// Several reports whether the server that answers is one of several.
func (c Cluster) Several() bool { return c.Majority > 0 }

// Leader returns the member that leads according to most members, or nil.
func (c Cluster) Leader() *Member {
	votes := map[uint64]int{}
	for _, m := range c.Members {
		if m.Report != nil && m.Report.Leader != 0 {
			votes[m.Report.Leader]++
		}
	}
	var leader *Member
	for i, m := range c.Members {
		if n := votes[m.ID]; n > 0 && (leader == nil || n > votes[leader.ID]) {
			leader = &c.Members[i]
		}
	}
	return leader
}

// Own returns the member that answers. If it is not in the list, only its id is known.
func (c Cluster) Own() Member {
	if i := slices.IndexFunc(c.Members, func(one Member) bool { return one.ID == c.Self }); i >= 0 {
		return c.Members[i]
	}
	return Member{ID: c.Self}
}

// Find returns the member with a name or an id.
func (c Cluster) Find(name string) (Member, error) {
	var names []string
	for _, m := range c.Members {
		if m.Name == name && name != "" || fmt.Sprintf("%x", m.ID) == name {
			return m, nil
		}
		names = append(names, m.Label())
	}
	return Member{}, &UnknownMemberError{name, names}
}

// Lag returns how many committed entries a member has not applied, or false if it has not answered.
func (c Cluster) Lag(m Member) (entries int64, ok bool) {
	if m.Report == nil {
		return 0, false
	}
	committed := m.Report.Committed
	for _, other := range c.Members {
		if other.Report != nil {
			committed = max(committed, other.Report.Committed)
		}
	}
	return int64(committed - min(committed, m.Report.Applied)), true
}

// Trouble returns why a member does not count as healthy, or "".
func (c Cluster) Trouble(m Member) string {
	leader := c.Leader()
	switch {
	case m.Report == nil:
		return m.Problem
	case m.Corrupt:
		return "its data differs from that of others"
	case m.Report.Leader == 0:
		return "it has no leader"
	case leader == nil || m.Report.Leader != leader.ID:
		return "it follows another leader than most members"
	}
	if lag, _ := c.Lag(m); lag > nearEntries {
		return fmt.Sprintf("it is %d entries behind", lag)
	}
	return ""
}

// voters returns how many members vote, and how many healthy ones, without one of them (0: with all).
func (c Cluster) voters(without uint64) (all, healthy int) {
	for _, m := range c.Members {
		if m.Learner || m.ID == without {
			continue
		}
		all++
		if c.Trouble(m) == "" {
			healthy++
		}
	}
	return all, healthy
}

func majority(voters int) int { return voters/2 + 1 }

// MayFail reports whether the cluster works without a member, while it remains a member.
func (c Cluster) MayFail(m Member) bool {
	all, _ := c.voters(0)
	_, healthy := c.voters(m.ID)
	return healthy >= majority(all)
}

// Unsafe returns why the cluster may not work any more if one more member fails, or "".
func (c Cluster) Unsafe() string {
	all, healthy := c.voters(0)
	switch troubled := c.troubled(); {
	case healthy < majority(all):
		return fmt.Sprintf("no majority of the voting members works (%d of %d): %s", healthy, all, troubled+c.perhapsOld())
	case len(c.OtherAlarms) > 0:
		return c.OtherAlarms[0].describe()
	case c.Unconfirmed:
		return c.unconfirmed()
	case healthy-1 >= majority(all) && !c.corrupt():
		return ""
	case troubled != "":
		return troubled
	default:
		return fmt.Sprintf("it needs three voting members to lose one, and has %d", all)
	}
}

// unconfirmed describes what Unconfirmed means.
func (c Cluster) unconfirmed() string {
	return fmt.Sprintf("no majority has confirmed to %s in time that its list of members is the present one", c.Own().Label())
}

// perhapsOld says so if another majority may have other members.
func (c Cluster) perhapsOld() string {
	if !c.Unconfirmed {
		return ""
	}
	return fmt.Sprintf(", as far as %s knows", c.Own().Label())
}

// troubled describes the members that are not healthy or do not vote.
func (c Cluster) troubled() string {
	var all []string
	for _, m := range c.Members {
		if t := c.Trouble(m); t != "" {
			all = append(all, fmt.Sprintf("%s (%s)", m.Label(), t))
		} else if m.Learner {
			all = append(all, m.Label()+" (it does not vote yet)")
		}
	}
	return strings.Join(all, ", ")
}

// successor returns the healthy voting member that has applied the most, beside one, or nil.
func (c Cluster) successor(beside uint64) *Member {
	var best *Member
	for i, m := range c.Members {
		if m.ID != beside && !m.Learner && c.Trouble(m) == "" && (best == nil || m.Report.Applied > best.Report.Applied) {
			best = &c.Members[i]
		}
	}
	return best
}

// sorted returns the members in the order of their names.
func sorted(members []Member) []Member {
	return slices.SortedFunc(slices.Values(members), func(a, b Member) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID))
	})
}
