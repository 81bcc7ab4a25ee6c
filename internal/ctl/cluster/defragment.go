package cluster

import (
	"context"
	"fmt"
	"slices"

	"github.com/fanoutd/fanoutd/client"
	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// Defragmented is the result for one member.
type Defragmented struct {
	Member      string `json:"member"`
	BytesBefore int64  `json:"bytesBefore"`
	Bytes       int64  `json:"bytes"`
}

// Defragment defragments the databases of all members, one after another, and calls done for each. The leader is the
// last, and another member leads meanwhile. Each member has caught up before the next one begins. A member that
// does not answer is skipped: skipped gets its name and why.
func (c *Client) Defragment(ctx context.Context, done func(Defragmented), skipped func(member, why string)) error {
	s, err := c.State(ctx)
	if err != nil {
		return err
	}
	slices.SortStableFunc(s.Members, func(a, b Member) int { return rank(a) - rank(b) })
	for _, m := range s.Members {
		if !m.answers() {
			skipped(m.Label(), m.Problem)
			continue
		}
		if err := c.follow(ctx, m.Label()); err != nil {
			return err
		}
		resp, err := c.service.DefragmentMember(ctx, &fanoutv1.DefragmentMemberRequest{Member: m.Label()})
		if err != nil {
			return fmt.Errorf("defragment %s: %w", m.Label(), client.ErrorOf(err))
		}
		done(Defragmented{Member: m.Label(), BytesBefore: resp.GetBytesBefore(), Bytes: resp.GetBytes()})
	}
	return nil
}

// rank orders the leader after the others.
func rank(m Member) int {
	if m.Role == "leader" {
		return 1
	}
	return 0
}

// follow waits until all members that answer have caught up, and makes another member the leader if this one leads.
func (c *Client) follow(ctx context.Context, member string) error {
	s, err := c.await(ctx, func(s State, err error) (bool, error) {
		behind := slices.ContainsFunc(s.Members, func(m Member) bool { return m.answers() && !m.Healthy })
		return err == nil && !behind, err
	})
	if err != nil || s.Leader != member || len(s.Members) == 1 {
		return err
	}
	_, _, err = c.MoveLeader(ctx, "")
	return err
}
