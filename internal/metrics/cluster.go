package metrics

import (
	"github.com/fanoutd/fanoutd/internal/cluster/manage"
)

// RegisterCluster adds the metrics of a cluster. state returns what this server has last seen of it, or false
// before it has looked. The caller calls RegisterCluster at most once.
func (m *Metrics) RegisterCluster(state func() (c manage.Cluster, differs, ok bool)) {
	m.registry.MustRegister(collector(func(s scrape) {
		if c, differs, ok := state(); ok {
			s.cluster(c, differs)
		}
	}))
}

const alarmHelp = "1 while etcd has this alarm for the member: no-space, corrupt. The member is an id if it was removed, and empty if no majority has the same data."

// cluster sends the state of a cluster.
func (s scrape) cluster(c manage.Cluster, differs bool) {
	voters := 0
	for _, m := range c.Members {
		voters += 1 - boolValue(m.Learner)
		one := s.with("member", m.Label())
		gauge(one, "cluster_member_healthy", "1 if the member answers, follows the leader and has applied nearly all entries, else 0. Missing without a cluster, like all of these.", boolValue(c.Trouble(m) == ""))
		gauge(one.with("alarm", "no-space"), "cluster_member_alarm", alarmHelp, boolValue(m.NoSpace))
		gauge(one.with("alarm", "corrupt"), "cluster_member_alarm", alarmHelp, boolValue(m.Corrupt))
	}
	for _, a := range c.OtherAlarms {
		gauge(s.with("member", a.Label()).with("alarm", a.Name()), "cluster_member_alarm", alarmHelp, 1)
	}
	gauge(s, "cluster_members", "Members of the cluster.", len(c.Members))
	gauge(s, "cluster_voters", "Members of the cluster that vote.", voters)
	gauge(s, "cluster_safe", "1 if the cluster works without any one of its members, else 0.", boolValue(c.Unsafe() == ""))
	gauge(s, "cluster_list_differs", "1 while cluster.members differs from the members of etcd, else 0.", boolValue(differs))
	own := c.Own()
	if own.Report == nil {
		return
	}
	gauge(s, "cluster_has_leader", "1 if this member knows the leader, else 0.", boolValue(own.Report.Leader != 0))
	gauge(s, "cluster_is_leader", "1 if this member is the leader, else 0.", boolValue(own.Report.Leader == c.Self))
	if lag, ok := c.Lag(own); ok {
		gauge(s, "cluster_lag_entries", "Committed entries that this member has not applied.", lag)
	}
	if end := own.Report.CertificateExpires; !end.IsZero() {
		gauge(s, "cluster_certificate_not_after_timestamp_seconds", "End of the validity of the certificate of this member, in Unix time. Missing without certificates.", end.Unix())
	}
}
