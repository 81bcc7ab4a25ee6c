// Package cluster is a client of ClusterService: it shows the members of a cluster and changes them, writes
// snapshots to files, and does what takes several requests: [Client.Defragment] and [Client.AwaitSafe].
package cluster

import (
	"context"
	"fmt"
	"time"

	"github.com/fanoutd/fanoutd/client"
	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// requestTimeout limits a request that shows the cluster while something else is awaited.
const requestTimeout = 10 * time.Second

// pollInterval is the time between two looks at a cluster that changes.
const pollInterval = time.Second

// Client is a client of ClusterService. Every server of a cluster answers for all.
type Client struct {
	service fanoutv1.ClusterServiceClient
}

// New returns a Client that uses the connection of c.
func New(c *client.Client) *Client { return &Client{fanoutv1.NewClusterServiceClient(c.Conn())} }

// State returns the state of the cluster.
func (c *Client) State(ctx context.Context) (State, error) {
	resp, err := c.service.GetCluster(ctx, &fanoutv1.GetClusterRequest{})
	if err != nil {
		return State{}, fmt.Errorf("show the cluster: %w", client.ErrorOf(err))
	}
	return stateOf(resp, time.Now()), nil
}

// Remove removes a member, with onlyIfDead only if it does not answer. It returns the state of the cluster
// afterwards.
func (c *Client) Remove(ctx context.Context, member string, onlyIfDead bool) (State, error) {
	resp, err := c.service.RemoveMember(ctx, &fanoutv1.RemoveMemberRequest{Member: member, OnlyIfDead: onlyIfDead})
	if err != nil {
		return State{}, fmt.Errorf("remove %s: %w", member, client.ErrorOf(err))
	}
	return stateOf(resp.GetCluster(), time.Now()), nil
}

// Update changes the address at which others reach a member. It returns the URL.
func (c *Client) Update(ctx context.Context, member, address string) (url string, err error) {
	resp, err := c.service.UpdateMember(ctx, &fanoutv1.UpdateMemberRequest{Member: member, Address: address})
	if err != nil {
		return "", fmt.Errorf("update %s: %w", member, client.ErrorOf(err))
	}
	return resp.GetPeerUrl(), nil
}

// MoveLeader makes a member the leader; with an empty name, any other. It returns the previous and the new one.
func (c *Client) MoveLeader(ctx context.Context, member string) (from, to string, err error) {
	resp, err := c.service.MoveLeader(ctx, &fanoutv1.MoveLeaderRequest{Member: member})
	if err != nil {
		return "", "", fmt.Errorf("move the leader: %w", client.ErrorOf(err))
	}
	return resp.GetFrom(), resp.GetTo(), nil
}

// Disarm clears the alarms whose cause is gone. It returns how many, and the state of the cluster afterwards.
func (c *Client) Disarm(ctx context.Context) (cleared int, after State, err error) {
	resp, err := c.service.DisarmAlarms(ctx, &fanoutv1.DisarmAlarmsRequest{})
	if err != nil {
		return 0, State{}, fmt.Errorf("disarm the cluster: %w", client.ErrorOf(err))
	}
	return len(resp.GetCleared()), stateOf(resp.GetCluster(), time.Now()), nil
}

// AwaitSafe waits until the cluster works without any one of its members, and returns its state. It calls say with the
// problem when that changes. Errors that may pass, such as those of a server that restarts, do not end
// the wait: passes reports which.
func (c *Client) AwaitSafe(ctx context.Context, say func(problem string), passes func(error) bool) (State, error) {
	said := ""
	return c.await(ctx, func(s State, err error) (bool, error) {
		problem := s.Problem
		switch {
		case err == nil && s.Safe:
			return true, nil
		case err != nil && !passes(err):
			return false, err
		case err != nil:
			problem = err.Error()
		}
		if problem != said {
			said = problem
			say(problem)
		}
		return false, nil
	})
}

// await looks at the cluster until done returns true or an error.
func (c *Client) await(ctx context.Context, done func(State, error) (bool, error)) (State, error) {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		looking, cancel := context.WithTimeout(ctx, requestTimeout)
		s, err := c.State(looking)
		cancel()
		if ctx.Err() != nil {
			return s, context.Cause(ctx)
		}
		if ended, err := done(s, err); ended || err != nil {
			return s, err
		}
		select {
		case <-ctx.Done():
			return s, context.Cause(ctx)
		case <-ticker.C:
		}
	}
}
