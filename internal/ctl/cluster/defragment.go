package cluster

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fanoutd/fanoutd/client"
	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// Defragmented is the result for one member.
type Defragmented struct {
	Member      string `json:"member"`
	BytesBefore int64  `json:"bytesBefore"`
	Bytes       int64  `json:"bytes"`
}

// CatchUpLimit is how long a defragmentation waits until all members have caught up.
const CatchUpLimit = 5 * time.Minute

// Steps are called for what a defragmentation does.
type Steps struct {
	Done    func(Defragmented)
	Skipped func(member, why string)
	Waiting func(why string) // until other members have caught up
}

// Defragment defragments the databases of all members, one after another. The leader is the last, and another member
// leads meanwhile. Each member has caught up before the next one begins; if that takes longer than limit, the rest is not
// defragmented. A member that does not answer is skipped.
func (c *Client) Defragment(ctx context.Context, limit time.Duration, steps Steps) error {
	s, err := c.State(ctx)
	if err != nil {
		return err
	}
	slices.SortStableFunc(s.Members, func(a, b Member) int { return rank(a) - rank(b) })
	for _, m := range s.Members {
		if !m.answers() {
			steps.Skipped(m.Label(), m.Problem)
			continue
		}
		if err := c.follow(ctx, m.Label(), limit, steps.Waiting); err != nil {
			return err
		}
		resp, err := c.service.DefragmentMember(ctx, &fanoutv1.DefragmentMemberRequest{Member: m.Label()})
		if err != nil {
			return fmt.Errorf("defragment %s: %w", m.Label(), client.ErrorOf(err))
		}
		steps.Done(Defragmented{Member: m.Label(), BytesBefore: resp.GetBytesBefore(), Bytes: resp.GetBytes()})
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

// LateError means that members have not caught up in time. The member was not defragmented.
type LateError struct{ Member, Late string }

func (e *LateError) Error() string {
	return fmt.Sprintf("%s is not defragmented, because others have not caught up in time: %s", e.Member, e.Late)
}

// follow waits until all members that answer have caught up, and makes another member the leader if this one leads. It calls
// waiting with the members that have not when they change.
func (c *Client) follow(ctx context.Context, member string, limit time.Duration, waiting func(string)) error {
	said := ""
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	s, err := c.await(limited, func(s State, err error) (bool, error) {
		var late []string
		for _, m := range s.Members {
			if m.answers() && !m.Healthy {
				late = append(late, fmt.Sprintf("%s (%s)", m.Label(), m.Problem))
			}
		}
		if now := strings.Join(late, ", "); err == nil && now != said {
			said = now
			if now != "" {
				waiting(now)
			}
		}
		return err == nil && len(late) == 0, err
	})
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		return &LateError{member, cmp.Or(said, "no answer")}
	}
	if err != nil || s.Leader != member || len(s.Members) == 1 {
		return err
	}
	_, _, err = c.MoveLeader(ctx, "")
	return err
}
