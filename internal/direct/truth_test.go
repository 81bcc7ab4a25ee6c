package direct_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/check"
)

// witness records every change in etcd from the first revision on.
type witness struct {
	fixture *fixture
	done    sync.WaitGroup
	changes []check.Change
	err     error

	mu      sync.Mutex
	moved   *sync.Cond
	through object.Revision // guarded by mu
}

// await waits until the witness has seen the revision. Later revisions must not be
// compacted.
func (w *witness) await(r object.Revision) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.through < r {
		w.moved.Wait()
	}
}

func (f *fixture) witness(t testing.TB) *witness {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	w := &witness{fixture: f}
	w.moved = sync.NewCond(&w.mu)
	watch := f.client.Watch(ctx, etcdPrefix, clientv3.WithPrefix(), clientv3.WithRev(1), clientv3.WithCreatedNotify())
	<-watch
	w.done.Go(func() {
		for resp := range watch {
			if w.err = resp.Err(); w.err != nil {
				return
			}
			for _, e := range resp.Events {
				w.note(e)
				if string(e.Kv.Key) == etcdPrefix+lastKey {
					return
				}
			}
		}
	})
	t.Cleanup(func() {
		cancel()
		w.done.Wait()
	})
	return w
}

func (w *witness) note(e *clientv3.Event) {
	key := object.Key(strings.TrimPrefix(string(e.Kv.Key), etcdPrefix))
	c := check.Change{Revision: object.Revision(e.Kv.ModRevision), Key: key}
	if e.Type != mvccpb.Event_DELETE {
		content, err := w.fixture.codec.Decode(e.Kv.Value)
		if err != nil {
			content = object.OpaqueContent(e.Kv.Value)
		}
		c.New = &object.Decoded{
			Key: key, Value: append([]byte{}, content.Value...), ContentType: content.ContentType, Labels: content.Labels, Opaque: err != nil,
			CreateRevision: object.Revision(e.Kv.CreateRevision), ModRevision: c.Revision, Version: e.Kv.Version,
		}
	}
	w.changes = append(w.changes, c)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.through = c.Revision
	w.moved.Broadcast()
}

// lastKey is the last key to be written.
const lastKey = "~"

// truth returns the history of etcd. It is called after the last write.
func (w *witness) truth(t testing.TB) *check.Truth {
	t.Helper()
	w.done.Wait()
	if w.err != nil {
		t.Fatal(w.err)
	}
	truth, err := check.NewTruth(w.changes, w.through)
	if err != nil {
		t.Fatal(err)
	}
	return truth
}
