package leader

import (
	"context"
	"slices"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/types"
)

// lateAnswers is how long a former leader may take to answer writes. It answers those that its successor
// commits, unless it is dead, frozen or cut off.
const lateAnswers = time.Second

// leadership is the time in which the own member follows one leader.
type leadership struct {
	leader types.ID    // 0: none has been known yet
	own    bool        // the leader is the own member
	to     *connection // nil: the leader is the own member, or its client URL is not known

	current context.Context // done when another leadership begins
	replace context.CancelFunc
	over    context.Context // done when writes of this leader are given up
	end     context.CancelCauseFunc
}

// follow begins a leadership with each change of the leader, until ctx is done. It owns the connections.
func (c *Client) follow(ctx context.Context) {
	for {
		changed := c.cfg.Raft.LeaderChangedNotify() // before Leader, so that no change is missed
		c.begin(ctx, true)
		for again := true; again; {
			select {
			case <-changed:
				again = false
			case <-c.moved:
				c.begin(ctx, false)
			case <-c.cfg.Raft.StoppingNotify():
				return
			case <-ctx.Done():
				return
			}
		}
	}
}

// begin begins a leadership. Without an announcement, it does so only if the address of the leader has changed.
func (c *Client) begin(ctx context.Context, announced bool) {
	c.closeMoved()
	before, leader := c.leadership.Load(), c.cfg.Raft.Leader()
	l := &leadership{leader: leader, own: leader == c.cfg.Raft.MemberID()}
	if leader != types.ID(0) && !l.own {
		l.to = c.connectionTo(leader)
	}
	if before != nil && !announced && before.leader == l.leader && before.to == l.to {
		return
	}
	if l.to != nil {
		// It may have been broken because this member had died before.
		l.to.brokenSince.Store(nil)
		l.to.conn.ResetConnectBackoff()
	}
	l.current, l.replace = context.WithCancel(ctx)
	if before != nil && before.leader == l.leader {
		l.over, l.end = before.over, before.end
	} else {
		l.over, l.end = context.WithCancelCause(ctx)
	}
	c.leadership.Store(l)
	if before == nil {
		return
	}
	before.replace()
	if before.leader != l.leader {
		c.log.Info("writes go to another member of etcd", "before", before.leader, "leader", l.leader, "own", l.own)
		time.AfterFunc(lateAnswers, func() { before.end(errDeposed) })
	}
}

// closeMoved closes the connections to members that have left, or have other addresses.
func (c *Client) closeMoved() {
	for id, n := range c.connections {
		if !slices.Equal(n.urls, c.cfg.ClientURLs(id)) {
			delete(c.connections, id)
			c.close(n)
		}
	}
}

// connectionTo returns the connection to a member, or nil if it has no client URL.
func (c *Client) connectionTo(id types.ID) *connection {
	if n := c.connections[id]; n != nil {
		return n
	}
	urls := c.cfg.ClientURLs(id)
	if len(urls) == 0 {
		return nil
	}
	n, err := connect(urls, c.tls, c.cfg.TLS.ServerName)
	if err != nil {
		c.log.Warn("cannot send writes to the leader of etcd", "leader", id, "error", err)
		return nil
	}
	c.connections[id] = n
	return n
}

func (c *Client) close(n *connection) {
	if err := n.conn.Close(); err != nil {
		c.log.Debug("could not close the connection to a member of etcd", "urls", n.urls, "error", err)
	}
}
