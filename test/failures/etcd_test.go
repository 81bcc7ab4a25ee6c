package failures

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/check"
	"github.com/fanoutd/fanoutd/test/poll"
)

// etcd is a client of etcd. It makes the writes that fanoutd must deliver, and records
// them.
type etcd struct {
	*clientv3.Client
	changes []check.Change // to the resource, as far as they have been read
	through object.Revision
}

func dialEtcd(t *testing.T, addresses ...string) *etcd {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{
		Endpoints:   addresses,
		DialTimeout: poll.Patience,
		DialOptions: []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 1.5, MaxDelay: 200 * time.Millisecond},
		})},
		Logger: zap.NewNop(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return &etcd{Client: client, through: 1} // an empty etcd is at revision 1
}

// try repeats a call that may fail for a while, such as without a leader.
func try[T any](t *testing.T, do func(ctx context.Context) (T, error)) T {
	t.Helper()
	ctx := contextFor(t)
	for {
		// A member that is stopped or cut off does not answer. Further attempts follow.
		attempt, cancel := context.WithTimeout(ctx, 2*time.Second)
		result, err := do(attempt)
		cancel()
		if err == nil {
			return result
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
	}
}

// put writes a key, possibly more than once, and returns the revision.
func (e *etcd) put(t *testing.T, key, value string) object.Revision {
	t.Helper()
	resp := try(t, func(ctx context.Context) (*clientv3.PutResponse, error) { return e.Put(ctx, etcdPrefix+key, value) })
	return object.Revision(resp.Header.GetRevision())
}

// remove deletes a key.
func (e *etcd) remove(t *testing.T, key string) object.Revision {
	t.Helper()
	resp := try(t, func(ctx context.Context) (*clientv3.DeleteResponse, error) { return e.Delete(ctx, etcdPrefix+key) })
	return object.Revision(resp.Header.GetRevision())
}

// putMany writes n keys below a path, one after another.
func (e *etcd) putMany(t *testing.T, path string, n int) (last object.Revision) {
	t.Helper()
	for i := range n {
		last = e.put(t, fmt.Sprintf("%s/%03d", path, i), fmt.Sprintf("value %d", i))
	}
	return last
}

// read records the changes so far. Tests call it before etcd is compacted.
func (e *etcd) read(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(contextFor(t))
	defer cancel()
	now := try(t, func(ctx context.Context) (*clientv3.GetResponse, error) {
		return e.Get(ctx, "x", clientv3.WithCountOnly())
	})
	through := object.Revision(now.Header.GetRevision())
	// Watch all keys: then the last revision is sure to have an event.
	watch := e.Watch(ctx, "", clientv3.WithPrefix(), clientv3.WithRev(int64(e.through)+1))
	for e.through < through {
		answer := <-watch
		if err := answer.Err(); err != nil {
			t.Fatal(err)
		}
		for _, event := range answer.Events {
			e.through = object.Revision(event.Kv.ModRevision)
			if key, ok := strings.CutPrefix(string(event.Kv.Key), etcdPrefix); ok && key != "" {
				e.changes = append(e.changes, changeOf(object.Key(key), event))
			}
		}
	}
}

// revisions returns those of the changes so far, one for each change.
func (e *etcd) revisions(t *testing.T) (all []object.Revision) {
	t.Helper()
	e.read(t)
	for _, c := range e.changes {
		all = append(all, c.Revision)
	}
	return all
}

// truth returns the history so far.
func (e *etcd) truth(t *testing.T) *check.Truth {
	t.Helper()
	e.read(t)
	truth, err := check.NewTruth(e.changes, e.through)
	if err != nil {
		t.Fatal(err)
	}
	truth.Window = 10_000
	return truth
}

// changeOf converts an event.
func changeOf(key object.Key, event *clientv3.Event) check.Change {
	c := check.Change{Revision: object.Revision(event.Kv.ModRevision), Key: key}
	if event.Type != mvccpb.Event_DELETE {
		c.New = &object.Decoded{
			Key: key, Value: append([]byte{}, event.Kv.Value...), ContentType: "application/octet-stream",
			CreateRevision: object.Revision(event.Kv.CreateRevision), ModRevision: c.Revision, Version: event.Kv.Version,
		}
	}
	return c
}
