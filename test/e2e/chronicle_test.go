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

// chronicle writes down what etcd says has happened, while it happens: etcd itself
// forgets when it is compacted.
type chronicle struct {
	mu      sync.Mutex
	changes []object.Change // of the resource
	through object.Revision
	err     error
	grown   chan struct{} // closed and replaced when something changes
}

// newChronicle begins with the first revision of etcd.
func newChronicle(t *testing.T, client *clientv3.Client) *chronicle {
	t.Helper()
	c := &chronicle{through: 1, grown: make(chan struct{})} // an empty etcd is at revision 1
	ctx, cancel := context.WithCancel(t.Context())
	var writing sync.WaitGroup
	writing.Go(func() { c.write(ctx, client) })
	t.Cleanup(func() {
		cancel()
		writing.Wait()
	})
	return c
}

func (c *chronicle) write(ctx context.Context, client *clientv3.Client) {
	for ctx.Err() == nil {
		// All keys, because only then every revision is sure to have an event.
		// The client goes on by itself when etcd was away for a while.
		watch := client.Watch(clientv3.WithRequireLeader(ctx), "", clientv3.WithPrefix(), clientv3.WithRev(int64(c.at())+1))
		for answer := range watch {
			if answer.CompactRevision > 0 {
				c.note(nil, 0, answer.Err())
				return
			}
			var changes []object.Change
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

func (c *chronicle) note(changes []object.Change, through object.Revision, err error) {
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

func (c *chronicle) at() object.Revision {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.through
}

// wait waits until everything up to the revision is written down.
func (c *chronicle) wait(ctx context.Context, revision object.Revision) error {
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

// truth returns what has happened up to the revision, or a little further.
func (c *chronicle) truth(ctx context.Context, revision object.Revision) (*check.Truth, error) {
	if err := c.wait(ctx, revision); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return check.NewTruth(c.changes, c.through)
}
