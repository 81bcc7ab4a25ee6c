package manage

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// Alarm is an alarm of etcd. etcd keeps it until it is cleared, also if its member is removed.
type Alarm struct {
	Member  uint64 // 0: the data of members differs, and no majority has the same
	Corrupt bool   // otherwise the database has reached its quota
}

// Name returns the name of an alarm in metrics.
func (a Alarm) Name() string {
	if a.Corrupt {
		return "corrupt"
	}
	return "no-space"
}

// Label returns the id of the member, or "" for no certain one.
func (a Alarm) Label() string {
	if a.Member == 0 {
		return ""
	}
	return fmt.Sprintf("%x", a.Member)
}

// describe says what is wrong, and what clears the alarm.
func (a Alarm) describe() string {
	name := "NOSPACE"
	if a.Corrupt {
		name = "CORRUPT"
	}
	whose := fmt.Sprintf("of a member that was removed (%s)", a.Label())
	if a.Member == 0 {
		whose = "of no certain member: their data differs"
	}
	return fmt.Sprintf("etcd refuses writes because of the alarm %s %s: run fanoutctl cluster disarm", name, whose)
}

// Hash is the hash of the data of a member.
type Hash struct {
	Revision, Compacted int64 // it covers what is newer than Compacted
	Sum                 uint32
}

// alarms returns the alarms of a member.
func (m Member) alarms() (all []Alarm) {
	if m.Corrupt {
		all = append(all, Alarm{m.ID, true})
	}
	if m.NoSpace {
		all = append(all, Alarm{m.ID, false})
	}
	return all
}

// corrupt reports whether etcd has found data that differs, and refuses writes.
func (c Cluster) corrupt() bool {
	return slices.ContainsFunc(c.Members, func(m Member) bool { return m.Corrupt }) ||
		slices.ContainsFunc(c.OtherAlarms, func(a Alarm) bool { return a.Corrupt })
}

func (c Cluster) hasAlarm(alarm Alarm) bool { return slices.Contains(c.OtherAlarms, alarm) }

// Disarm clears the alarms whose cause is gone: those of members that were removed, and if all members have
// the same data, all alarms that it differs. It returns them, and the state of the cluster afterwards.
func (m *Manager) Disarm(ctx context.Context) (cleared []Alarm, c Cluster, err error) {
	end, err := m.begin(ctx)
	if err != nil {
		return nil, c, err
	}
	defer end()
	if c, err = m.confirmed(ctx); err != nil {
		return nil, c, err
	}
	due := slices.Clone(c.OtherAlarms)
	for _, one := range c.Members {
		if one.Corrupt {
			due = append(due, Alarm{one.ID, true})
		}
	}
	if len(due) == 0 {
		return nil, c, nil
	}
	if c.Unconfirmed {
		return nil, c, unsafef("no majority of the members has answered, so no alarm can be cleared: %s", c.Unsafe())
	}
	if c.corrupt() {
		if err := m.compare(ctx, c); err != nil {
			return nil, c, err
		}
	}
	for _, alarm := range due {
		if err := m.etcd.Disarm(ctx, alarm); err != nil {
			return cleared, c, fmt.Errorf("clear an alarm: %w", err)
		}
		cleared = append(cleared, alarm)
	}
	c, err = m.Cluster(ctx)
	return cleared, c, err
}

// compare returns an error unless all members have the same data. While there is an alarm, none of them changes.
func (m *Manager) compare(ctx context.Context, c Cluster) error {
	for _, one := range c.Members {
		if one.Report == nil {
			return unsafef("the data of %s cannot be compared (%s): start it, or take it out with fanoutctl cluster replace", one.Label(), one.Problem)
		}
	}
	var (
		with map[Hash][]string
		err  error
	)
	repeat(ctx, func() bool { // a member that has just started is behind the others
		with, err = m.hashes(ctx, c)
		return err != nil || len(with) <= 1
	})
	if err != nil || len(with) <= 1 {
		return err
	}
	var groups, others []string
	for _, names := range with {
		groups = append(groups, strings.Join(names, " and "))
		if len(names) < majority(len(c.Members)) {
			others = append(others, names...)
		}
	}
	slices.Sort(groups)
	slices.Sort(others)
	if len(others) == len(c.Members) {
		return unsafef("the data differs between %s, and no majority has the same: stop all servers, and continue with the data of one with fanoutd recover, or with a snapshot",
			strings.Join(groups, ", "))
	}
	names := strings.Join(others, ", ")
	return unsafef("the data of %s differs from that of most members: stop %s, run fanoutctl cluster replace, and start it with an empty data directory", names, names)
}

// hashes returns the members by the hash of their data.
func (m *Manager) hashes(ctx context.Context, c Cluster) (map[Hash][]string, error) {
	with := map[Hash][]string{}
	for _, one := range c.Members {
		hash, err := m.etcd.Hash(ctx, one.ID)
		if err != nil {
			return nil, fmt.Errorf("read the data of %s: %w", one.Label(), err)
		}
		with[hash] = append(with[hash], one.Label())
	}
	return with, nil
}
