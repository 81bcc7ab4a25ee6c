package manage

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"
)

// Etcd is the etcd of a server. If the server has none, all methods fail with [object.ErrNotEmbedded].
type Etcd interface {
	// Cluster asks all members. Members that do not answer in time have no report. If there is a
	// majority, the own member has then applied everything that was acknowledged before.
	Cluster(ctx context.Context) (Cluster, error)

	// Reached asks the others whether a member answers them, and returns those that it answers.
	Reached(ctx context.Context, id uint64) []uint64

	// RemoveMember lets the member via remove another one.
	RemoveMember(ctx context.Context, via, id uint64) error

	// UpdateMember changes the address at which other members reach a member.
	UpdateMember(ctx context.Context, id uint64, peerURL string) error

	// MoveLeader lets the leader hand over to a member. It returns when that one leads.
	MoveLeader(ctx context.Context, leader, to uint64) error

	// Defragment defragments the database of a member, and returns its sizes.
	Defragment(ctx context.Context, id uint64) (before, after int64, err error)

	// Hash returns the hash of all data of a member, at the newest revision that it has.
	Hash(ctx context.Context, id uint64) (Hash, error)

	// Disarm clears an alarm.
	Disarm(ctx context.Context, alarm Alarm) error

	// Snapshot sends the database of the own member, and at last its hash. Remaining is how many bytes
	// of the database follow.
	Snapshot(ctx context.Context, send func(chunk []byte, remaining int64) error) error
}

// Manager manages a cluster. Its methods may be called from any goroutine.
type Manager struct {
	etcd     Etcd
	changing chan struct{} // has an element during a change
}

// New returns a Manager.
func New(etcd Etcd) *Manager { return &Manager{etcd: etcd, changing: make(chan struct{}, 1)} }

// begin waits until no other change is going on here. The caller calls end afterwards.
func (m *Manager) begin(ctx context.Context) (end func(), err error) {
	select {
	case m.changing <- struct{}{}:
		return func() { <-m.changing }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for another change of the cluster: %w", ctx.Err())
	}
}

// Cluster returns the state of the cluster, its members in the order of their names.
func (m *Manager) Cluster(ctx context.Context) (Cluster, error) {
	c, err := m.etcd.Cluster(ctx)
	c.Members = sorted(c.Members)
	return c, err
}

// confirmed returns the state of the cluster. A busy majority gets more time to confirm the list of members.
func (m *Manager) confirmed(ctx context.Context) (c Cluster, err error) {
	repeat(ctx, func() bool {
		c, err = m.Cluster(ctx)
		all, healthy := c.voters(0)
		return err != nil || !c.Unconfirmed || healthy < majority(all)
	})
	return c, err
}

// several is confirmed for a cluster of several.
func (m *Manager) several(ctx context.Context) (Cluster, error) {
	c, err := m.confirmed(ctx)
	if err == nil && !c.Several() {
		err = ErrSingle
	}
	return c, err
}

const (
	// patience is how long a question is repeated before its answer counts. A busy machine may take seconds.
	patience = 10 * time.Second
	pause    = time.Second
)

// repeat calls a function until it returns true, ctx is done, or patience is over.
func repeat(ctx context.Context, ended func() bool) {
	over := time.After(patience)
	for !ended() {
		select {
		case <-ctx.Done():
			return
		case <-over:
			return
		case <-time.After(pause):
		}
	}
}

// Remove removes a member, with onlyIfDead only if it does not answer any member for a while. It returns the state of the
// cluster afterwards.
func (m *Manager) Remove(ctx context.Context, name string, onlyIfDead bool) (Cluster, error) {
	end, err := m.begin(ctx)
	if err != nil {
		return Cluster{}, err
	}
	defer end()
	c, err := m.several(ctx)
	if err != nil {
		return c, err
	}
	member, err := c.Find(name)
	if err == nil && onlyIfDead {
		c, err = m.dead(ctx, c, member)
	}
	if err == nil {
		err = c.mayRemove(member)
	}
	if err != nil {
		return c, err
	}
	via := c.Self
	if leader := c.Leader(); leader.ID == member.ID {
		to := c.successor(member.ID) // mayRemove has found a majority without it
		if err := m.etcd.MoveLeader(ctx, member.ID, to.ID); err != nil {
			return c, fmt.Errorf("move the leader to %s: %w", to.Label(), err)
		}
	}
	if via == member.ID { // which may not answer any more once it is removed
		via = c.successor(member.ID).ID
	}
	if err := m.etcd.RemoveMember(ctx, via, member.ID); err != nil {
		return c, fmt.Errorf("remove %s: %w", member.Label(), err)
	}
	c.Members = slices.DeleteFunc(c.Members, func(one Member) bool { return one.ID == member.ID })
	for _, alarm := range member.alarms() {
		if err := m.etcd.Disarm(ctx, alarm); err != nil {
			c.OtherAlarms = append(c.OtherAlarms, alarm) // the member is removed: Unsafe says what to do
		}
	}
	return c, nil
}

// dead returns an error if a member answers this one or another one. It asks several times, because a busy machine may be late
// once. It returns the newest state of the cluster.
func (m *Manager) dead(ctx context.Context, c Cluster, member Member) (Cluster, error) {
	answers, err := "", error(nil)
	repeat(ctx, func() bool {
		if one, err := c.Find(member.Label()); err == nil && one.Report != nil {
			answers = "answers"
			return true
		}
		for _, id := range m.etcd.Reached(ctx, member.ID) {
			i := slices.IndexFunc(c.Members, func(one Member) bool { return one.ID == id })
			if i >= 0 && id != member.ID {
				answers = "answers " + c.Members[i].Label()
				return true
			}
		}
		c, err = m.Cluster(ctx)
		return err != nil
	})
	if one, err := c.Find(member.Label()); err == nil && one.Report != nil {
		answers = cmp.Or(answers, "answers") // the last question counts, too
	}
	if answers != "" {
		err = unsafef("%s %s, so it need not be replaced: to move it to another machine, stop it first; to take it out of the cluster, use fanoutctl cluster remove",
			member.Label(), answers)
	}
	return c, cmp.Or(err, ctx.Err())
}

// mayRemove returns an error if the cluster would not work without a member that has been removed.
func (c Cluster) mayRemove(m Member) error {
	if err := c.works(); err != nil || m.Learner {
		return err
	}
	left, healthy := c.voters(m.ID)
	switch {
	case left == 0:
		return unsafef("%s is the only voting member", m.Label())
	case left < c.Majority:
		return unsafef("without %s, the number of voting members is %d, and the servers accept no writes before %d of cluster.members vote: change cluster.members first and restart the servers",
			m.Label(), left, c.Majority)
	case healthy < majority(left):
		without := c
		without.Members = slices.DeleteFunc(slices.Clone(c.Members), func(one Member) bool { return one.ID == m.ID })
		return unsafef("without %s, no majority of the voting members works (%[3]d of %[2]d): bring %[4]s back first", m.Label(), left, healthy, without.troubled())
	}
	return nil
}

// works returns an error if the cluster has no majority, or no leader, so that nothing can be changed.
func (c Cluster) works() error {
	all, healthy := c.voters(0)
	if healthy < majority(all) {
		return unsafef("no majority of the voting members works (%d of %d), so nothing can be changed: start %s; if their data is lost for good, use fanoutd recover",
			healthy, all, c.troubled()+c.perhapsOld())
	}
	if c.Unconfirmed {
		return unsafef("nothing can be changed: %s", c.unconfirmed())
	}
	return nil
}

// Update changes the address at which other members reach a member.
func (m *Manager) Update(ctx context.Context, name string, url func(present string) string) (peerURL string, err error) {
	end, err := m.begin(ctx)
	if err != nil {
		return "", err
	}
	defer end()
	c, err := m.several(ctx)
	if err != nil {
		return "", err
	}
	member, err := c.Find(name)
	if err == nil {
		err = c.works()
	}
	if err != nil {
		return "", err
	}
	present := ""
	if len(member.PeerURLs) > 0 {
		present = member.PeerURLs[0]
	}
	peerURL = url(present)
	for _, other := range c.Members {
		if other.ID != member.ID && slices.Contains(other.PeerURLs, peerURL) {
			return "", unsafef("%s has the address %s already", other.Label(), peerURL)
		}
	}
	if member.Report != nil {
		// Its connections would stay, so nothing would show that the address is wrong until it starts again.
		return "", unsafef("%s answers: stop it first, and start it with its new address afterwards", member.Label())
	}
	if err := m.etcd.UpdateMember(ctx, member.ID, peerURL); err != nil {
		return "", fmt.Errorf("update %s: %w", member.Label(), err)
	}
	return peerURL, nil
}

// MoveLeader makes a member the leader; with an empty name, the one that has applied the most. It returns
// the previous and the new leader.
func (m *Manager) MoveLeader(ctx context.Context, name string) (from, to Member, err error) {
	end, err := m.begin(ctx)
	if err != nil {
		return from, to, err
	}
	defer end()
	c, err := m.several(ctx)
	if err == nil {
		err = c.works()
	}
	if err != nil {
		return from, to, err
	}
	from = *c.Leader()
	if name == "" {
		next := c.successor(from.ID)
		if next == nil {
			return from, to, unsafef("no other member can lead")
		}
		to = *next
	} else if to, err = c.Find(name); err != nil || to.ID == from.ID {
		return from, to, err
	}
	trouble := c.Trouble(to)
	if to.Learner {
		trouble = "it does not vote yet"
	}
	if trouble != "" {
		return from, to, unsafef("%s cannot lead: %s", to.Label(), trouble)
	}
	if err := m.etcd.MoveLeader(ctx, from.ID, to.ID); err != nil {
		return from, to, fmt.Errorf("move the leader from %s to %s: %w", from.Label(), to.Label(), err)
	}
	return from, to, nil
}

// Defragment defragments the database of a member and returns its sizes.
func (m *Manager) Defragment(ctx context.Context, name string) (before, after int64, err error) {
	end, err := m.begin(ctx)
	if err != nil {
		return 0, 0, err
	}
	defer end()
	c, err := m.several(ctx)
	if err != nil {
		return 0, 0, err
	}
	member, err := c.Find(name)
	if err == nil {
		err = c.works()
	}
	if err != nil {
		return 0, 0, err
	}
	switch all, _ := c.voters(0); {
	case member.Report == nil:
		return 0, 0, unsafef("%s cannot be defragmented: %s", member.Label(), member.Problem)
	case !member.Learner && all > 1 && !c.MayFail(member):
		return 0, 0, unsafef("the cluster does not work without %s, which pauses for a defragmentation: bring %s back first, or use fanoutctl reclaim at that server, with a pause of writes",
			member.Label(), c.needed())
	case c.Leader().ID == member.ID && all > 1:
		return 0, 0, unsafef("%s leads, and writes would wait: run fanoutctl cluster move-leader first", member.Label())
	}
	if before, after, err = m.etcd.Defragment(ctx, member.ID); err != nil {
		err = fmt.Errorf("defragment %s: %w", member.Label(), err)
	}
	return before, after, err
}

// needed describes which members are missing to a cluster that cannot lose one.
func (c Cluster) needed() string {
	if t := c.troubled(); t != "" {
		return t
	}
	return "a third member"
}
