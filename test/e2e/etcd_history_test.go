package e2e

import (
	"context"
	"strings"
	"sync"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/check"
)

// etcdHistory records etcd's history as it happens, because etcd loses it when it is
// compacted.
type etcdHistory struct {
	mu      sync.Mutex
	changes []check.Change // to the resource
	through object.Revision
	err     error
	grown   chan struct{} // closed and replaced when something changes

	end func() // ends the recording, and waits for it
}

// newEtcdHistory starts recording at etcd's first revision.
func newEtcdHistory(t *testing.T, client *clientv3.Client) *etcdHistory {
	t.Helper()
	return (&etcdHistory{through: 1}).begin(t, client) // an empty etcd is at revision 1
}

// continueHistory starts recording the history of an etcd that was restored from a snapshot
// at a revision. Up to there it has the history from before.
func continueHistory(t *testing.T, client *clientv3.Client, before *etcdHistory, revision object.Revision) *etcdHistory {
	t.Helper()
	c := &etcdHistory{through: revision}
	for _, change := range before.changes {
		if change.Revision <= revision {
			c.changes = append(c.changes, change)
		}
	}
	return c.begin(t, client)
}

// begin starts recording.
func (c *etcdHistory) begin(t *testing.T, client *clientv3.Client) *etcdHistory {
	t.Helper()
	c.grown = make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	var writing sync.WaitGroup
	writing.Go(func() { c.write(ctx, client) })
	c.end = func() {
		cancel()
		writing.Wait()
	}
	t.Cleanup(c.end)
	return c
}

func (c *etcdHistory) write(ctx context.Context, client *clientv3.Client) {
	for ctx.Err() == nil {
		// Watch all keys: then every revision has an event. The client reconnects on
		// its own after an outage of etcd.
		watch := client.Watch(clientv3.WithRequireLeader(ctx), "", clientv3.WithPrefix(), clientv3.WithRev(int64(c.at())+1))
		for answer := range watch {
			if answer.CompactRevision > 0 {
				c.note(nil, 0, answer.Err())
				return
			}
			var changes []check.Change
			through := object.Revision(0)
			for _, event := range answer.Events {
				through = object.Revision(event.Kv.ModRevision)
				key, ok := strings.CutPrefix(string(event.Kv.Key), etcdPrefix)
				if !ok {
					continue
				}
				change, err := changeOf(object.Key(key), event)
				if err != nil {
					c.note(nil, 0, err)
					return
				}
				changes = append(changes, change)
			}
			c.note(changes, through, nil)
		}
	}
}

func (c *etcdHistory) note(changes []check.Change, through object.Revision, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changes = append(c.changes, changes...)
	c.through = max(c.through, through)
	if c.err == nil {
		c.err = err
	}
	close(c.grown)
	c.grown = make(chan struct{})
}

func (c *etcdHistory) at() object.Revision {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.through
}

// wait waits until everything up to the revision is recorded.
func (c *etcdHistory) wait(ctx context.Context, revision object.Revision) error {
	for {
		c.mu.Lock()
		through, err, grown := c.through, c.err, c.grown
		c.mu.Unlock()
		if err != nil || through >= revision {
			return err
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// truth returns the history up to the revision, or a little further.
func (c *etcdHistory) truth(ctx context.Context, revision object.Revision) (*check.Truth, error) {
	if err := c.wait(ctx, revision); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return check.NewTruth(c.changes, c.through)
}
