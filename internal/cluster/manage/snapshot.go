package manage

import (
	"context"
	"fmt"
)

// Source is where a snapshot comes from.
type Source struct {
	Member  string
	Problem string // why the data may be old or wrong; empty: it is neither
}

// Snapshot sends the database of the own member, and at last its hash. Remaining is how many bytes of the
// database follow. The snapshot contains what was acknowledged before, because listing the members waits until this one has
// applied it. If that is not certain, or if the data may be wrong, it is refused unless allowUnsafe is set.
func (m *Manager) Snapshot(ctx context.Context, allowUnsafe bool, send func(from Source, chunk []byte, remaining int64) error) error {
	c, err := m.confirmed(ctx)
	if err != nil {
		return err
	}
	from := Source{c.Own().Label(), c.snapshotProblem()}
	if from.Problem != "" && !allowUnsafe {
		return unsafef("%s: take the snapshot from another server; if there is none, fanoutctl cluster snapshot --allow-unsafe takes it from this one", from.Problem)
	}
	return m.etcd.Snapshot(ctx, func(chunk []byte, remaining int64) error { return send(from, chunk, remaining) })
}

// snapshotProblem returns why a snapshot of the own member may be old or wrong, or "".
func (c Cluster) snapshotProblem() string {
	self := c.Own()
	switch {
	case self.Corrupt:
		return fmt.Sprintf("the data of %s differs from that of others", self.Label())
	case c.hasAlarm(Alarm{0, true}):
		return "the data of members differs, and no majority has the same"
	case c.Unconfirmed:
		return fmt.Sprintf("%s has no majority, so it may lack the newest writes", self.Label())
	}
	return ""
}
