package store_test

import (
	"context"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/store"
	"github.com/fanoutd/fanoutd/test/etcdproc"
	"github.com/fanoutd/fanoutd/test/loopback"
	"github.com/fanoutd/fanoutd/test/poll"
)

func contextFor(t testing.TB) context.Context {
	return poll.Context(t)
}

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// etcd is a store, and an etcd client that bypasses it.
type etcd struct {
	*store.Store
	client *clientv3.Client
}

// stores opens both kinds of stores.
var stores = map[string]func(t *testing.T) *etcd{
	"embedded": func(t *testing.T) *etcd { return embedded(t, store.EmbeddedConfig{}) },
	"external": func(t *testing.T) *etcd {
		address := etcdproc.Start(t, "http")
		s, err := store.Dial(t.Context(), store.ExternalConfig{Endpoints: []string{address}}, quiet())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { closeStore(t, s) })
		return &etcd{s, etcdClient(t, address)}
	},
}

// both runs a test with an embedded and with an external etcd.
func both(t *testing.T, test func(t *testing.T, e *etcd)) {
	for name, open := range stores {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
}

func embedded(t *testing.T, cfg store.EmbeddedConfig) *etcd {
	t.Helper()
	cfg.Dir = filepath.Join(t.TempDir(), "data")
	cfg.ListenClient = loopback.FreeAddress(t)
	cfg.UnsafeNoFsync = true
	s, err := store.OpenEmbedded(t.Context(), cfg, quiet())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeStore(t, s) })
	return &etcd{s, etcdClient(t, cfg.ListenClient)}
}

func closeStore(t testing.TB, s *store.Store) {
	t.Helper()
	if err := s.Close(context.Background()); err != nil {
		t.Errorf("close: %v", err)
	}
}

func etcdClient(t testing.TB, addresses ...string) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: addresses, DialTimeout: poll.Patience, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

const prefix = "/test/"

func (e *etcd) collection() *store.Collection { return e.Plain("test", prefix) }

func put(key, value string) object.Op {
	return object.Op{Kind: object.OpPut, Key: object.Key(key), Value: []byte(value)}
}

func remove(key string) object.Op { return object.Op{Kind: object.OpDelete, Key: object.Key(key)} }

func check(key string) object.Op { return object.Op{Kind: object.OpCheck, Key: object.Key(key)} }

// when adds a precondition to an operation.
func when(r object.Revision, op object.Op) object.Op {
	op.If = &r
	return op
}

// commit applies operations and fails the test if they fail.
func commit(t testing.TB, c *store.Collection, ops ...object.Op) object.Revision {
	t.Helper()
	done, err := c.Commit(contextFor(t), ops)
	if err != nil {
		t.Fatal(err)
	}
	return done.Revision
}

// show formats records: key=value, or -key for a deletion.
func show(records []object.Record) string {
	var all []string
	for _, r := range records {
		if r.Deleted {
			all = append(all, "-"+string(r.Key))
		} else {
			all = append(all, string(r.Key)+"="+string(r.Value))
		}
	}
	return strings.Join(all, " ")
}

// watch opens a stream. The test closes it when it ends.
func watch(t testing.TB, c *store.Collection, after object.Revision) object.Watch {
	t.Helper()
	s, err := c.Watch(t.Context(), object.Scope{}, object.Position{Epoch: c.KnownEpoch(), Revision: after}, false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// eachUpdate calls f with each update of a watch of a scope, with previous records. It returns the
// first error.
func eachUpdate(t testing.TB, c *store.Collection, scope object.Scope, after object.Revision, f func(object.Update) error) error {
	t.Helper()
	s, err := c.Watch(t.Context(), scope, object.Position{Epoch: c.KnownEpoch(), Revision: after}, true)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for {
		u, err := s.Next(contextFor(t))
		if err == nil {
			err = f(u)
		}
		if err != nil {
			return err
		}
	}
}

// next returns the next update that has records.
func next(t testing.TB, s object.Watch) object.Update {
	t.Helper()
	for {
		u, err := s.Next(contextFor(t))
		if err != nil {
			t.Fatal(err)
		}
		if len(u.Records) > 0 {
			return u
		}
	}
}
