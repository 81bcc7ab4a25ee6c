package cluster

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/ctl/output"
)

// State is the state of a cluster, as shown in JSON and YAML.
type State struct {
	ClusterID      string   `json:"clusterId"`
	ClusterVersion string   `json:"clusterVersion,omitempty"`
	AnsweredBy     string   `json:"answeredBy"`
	Leader         string   `json:"leader,omitempty"`
	Safe           bool     `json:"safe"` // it works without any one of its members
	Problem        string   `json:"problem,omitempty"`
	Unconfirmed    bool     `json:"unconfirmed,omitempty"` // the member that answers has no majority, so its list may be old
	OtherAlarms    []Alarm  `json:"otherAlarms,omitempty"`
	Members        []Member `json:"members"`
}

// Alarm is an alarm that is not that of a member.
type Alarm struct {
	Alarm    string `json:"alarm"`              // no-space or corrupt
	MemberID string `json:"memberId,omitempty"` // of a member that was removed; empty: the data of members differs
}

// Member is a member of a cluster.
type Member struct {
	Name            string     `json:"name"`
	ID              string     `json:"id"`
	Role            string     `json:"role"` // leader, follower or learner
	Healthy         bool       `json:"healthy"`
	Problem         string     `json:"problem,omitempty"`
	MayFail         bool       `json:"mayFail"`
	Alarms          []string   `json:"alarms,omitempty"` // no-space or corrupt
	Lag             *int64     `json:"lagEntries,omitempty"`
	Version         string     `json:"version,omitempty"`
	EtcdVersion     string     `json:"etcdVersion,omitempty"`
	DatabaseBytes   int64      `json:"databaseBytes,omitempty"`
	InUseBytes      int64      `json:"databaseBytesInUse,omitempty"`
	QuotaBytes      int64      `json:"quotaBytes,omitempty"`
	DiskFreeBytes   *int64     `json:"diskFreeBytes,omitempty"`
	CertificateEnds *time.Time `json:"certificateExpires,omitempty"`
	CertificateDays *int       `json:"certificateDaysLeft,omitempty"`
	PeerURLs        []string   `json:"peerUrls,omitempty"`
	ClientURLs      []string   `json:"clientUrls,omitempty"`
}

// Label returns how a member is called: by its id if it has no name yet.
func (m Member) Label() string { return cmp.Or(m.Name, m.ID) }

// answers reports whether the member has answered.
func (m Member) answers() bool { return m.EtcdVersion != "" }

func stateOf(r *fanoutv1.GetClusterResponse, now time.Time) State {
	s := State{
		ClusterID: r.GetClusterId(), ClusterVersion: r.GetClusterVersion(), AnsweredBy: r.GetAnsweredBy(), Leader: r.GetLeader(),
		Safe: r.GetSafe(), Problem: r.GetProblem(), Members: []Member{}, Unconfirmed: r.GetUnconfirmed(),
	}
	for _, a := range r.GetOtherAlarms() {
		s.OtherAlarms = append(s.OtherAlarms, Alarm{name(a.GetAlarm(), "ALARM_"), a.GetMemberId()})
	}
	for _, m := range r.GetMembers() {
		s.Members = append(s.Members, memberOf(m, now))
	}
	return s
}

func memberOf(m *fanoutv1.ClusterMember, now time.Time) Member {
	one := Member{
		Name: m.GetName(), ID: m.GetId(), Role: name(m.GetRole(), "ROLE_"), Healthy: m.GetHealthy(), Problem: m.GetProblem(), MayFail: m.GetMayFail(),
		Lag: m.LagEntries, Version: m.GetVersion(), EtcdVersion: m.GetEtcdVersion(),
		DatabaseBytes: m.GetDatabaseBytes(), InUseBytes: m.GetDatabaseBytesInUse(), QuotaBytes: m.GetQuotaBytes(), DiskFreeBytes: m.DiskFreeBytes,
		PeerURLs: m.GetPeerUrls(), ClientURLs: m.GetClientUrls(),
	}
	for _, a := range m.GetAlarms() {
		one.Alarms = append(one.Alarms, name(a, "ALARM_"))
	}
	if m.GetCertificateExpires() != nil {
		end := m.GetCertificateExpires().AsTime()
		one.CertificateEnds, one.CertificateDays = &end, new(int(math.Floor(end.Sub(now).Hours()/24)))
	}
	return one
}

// name returns what is shown of a value of the protocol, such as no-space for ALARM_NO_SPACE.
func name(value fmt.Stringer, prefix string) string {
	text, known := strings.CutPrefix(value.String(), prefix)
	if !known || text == "UNSPECIFIED" {
		return "unknown"
	}
	return strings.ReplaceAll(strings.ToLower(text), "_", "-")
}

// Columns returns the columns of a table of members.
func Columns(wide bool) []output.Column[Member] {
	columns := []output.Column[Member]{
		{Title: "MEMBER", Cell: Member.Label, Style: output.Name},
		{Title: "ROLE", Cell: func(m Member) string { return m.Role }},
		{Title: "MAY FAIL", Cell: func(m Member) string { return yes(m.MayFail) }},
		{Title: "LAG", Cell: func(m Member) string { return number(m.Lag) }, Right: true},
		{Title: "DATABASE", Cell: Member.database, Right: true},
		{Title: "VERSION", Cell: func(m Member) string { return cmp.Or(m.Version, "-") }},
		{Title: "ETCD", Cell: func(m Member) string { return cmp.Or(m.EtcdVersion, "-") }},
		{Title: "CERTIFICATE", Cell: Member.certificate},
	}
	if wide {
		columns = append(columns,
			output.Column[Member]{Title: "IN USE", Cell: func(m Member) string { return size(m.InUseBytes) }, Right: true},
			output.Column[Member]{Title: "QUOTA", Cell: func(m Member) string { return size(m.QuotaBytes) }, Right: true},
			output.Column[Member]{Title: "DISK FREE", Cell: Member.diskFree, Right: true},
			output.Column[Member]{Title: "ID", Cell: func(m Member) string { return m.ID }},
			output.Column[Member]{Title: "PEERS", Cell: func(m Member) string { return list(m.PeerURLs) }},
			output.Column[Member]{Title: "CLIENTS", Cell: func(m Member) string { return list(m.ClientURLs) }},
		)
	}
	return append(columns, output.Column[Member]{Title: "STATE", Cell: Member.state})
}

func (m Member) database() string { return size(m.DatabaseBytes) }

func (m Member) diskFree() string {
	if m.DiskFreeBytes == nil {
		return "-"
	}
	return output.Size(*m.DiskFreeBytes)
}

func (m Member) certificate() string {
	switch {
	case m.CertificateDays == nil:
		return "-"
	case *m.CertificateDays < 0:
		return "expired"
	case *m.CertificateDays == 1:
		return "1 day"
	}
	return strconv.Itoa(*m.CertificateDays) + " days"
}

// state returns what is wrong with a member, or "ok".
func (m Member) state() string {
	var all []string
	for _, a := range m.Alarms {
		all = append(all, "alarm: "+a)
	}
	if m.Problem != "" {
		all = append(all, m.Problem)
	}
	return cmp.Or(strings.Join(all, "; "), "ok")
}

func yes(is bool) string {
	if is {
		return "yes"
	}
	return "no"
}

func number(n *int64) string {
	if n == nil {
		return "-"
	}
	return strconv.FormatInt(*n, 10)
}

func size(bytes int64) string {
	if bytes == 0 {
		return "-"
	}
	return output.Size(bytes)
}

func list(urls []string) string { return cmp.Or(strings.Join(urls, ","), "-") }
