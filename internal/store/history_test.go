package store_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fanoutd/fanoutd/internal/history"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/store"
	"github.com/fanoutd/fanoutd/test/etcdproc"
)

// recorded returns puts of new objects with records.
func recorded(n int) []object.Op {
	ops := make([]object.Op, n)
	for i := range ops {
		ops[i] = object.Op{
			Kind: object.OpPut, Key: object.Key(fmt.Sprintf("k%d", i)), Value: []byte("v"), Seen: &object.Seen{},
			Recording: &object.Recording{Tail: history.Tail(history.Put, time.Unix(1, 0), 1), Value: []byte("v"), Change: []byte("c")},
		}
	}
	return ops
}

// An external etcd that accepts too few operations refuses a large transaction with records. The error
// says how it must be started, and nothing is stored.
func TestTooManyOperationsNameTheFlagOfEtcd(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	address := etcdproc.Start(t, "http")
	s, err := store.Dial(t.Context(), store.ExternalConfig{Endpoints: []string{address}}, quiet())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeStore(t, s) })
	ctx, client := contextFor(t), etcdClient(t, address)
	c := s.Plain("config", "/test/config/")
	records := c.KeepHistory()
	_, err = c.Commit(ctx, recorded(43))
	if many, ok := errors.AsType[*object.TooManyOperationsError](err); !ok || many.Needed != 129 || !errors.Is(err, object.ErrTooLarge) || !strings.Contains(err.Error(), "--max-txn-ops=129") {
		t.Errorf("got %v", err)
	}
	if all, err := client.Get(ctx, "/test/", clientv3.WithPrefix(), clientv3.WithCountOnly()); err != nil || all.Count != 0 {
		t.Errorf("etcd has %v, %v, want nothing", all, err)
	}
	if _, err = c.Commit(ctx, recorded(42)); err != nil {
		t.Error(err)
	}
	if all, err := client.Get(ctx, "/test/", clientv3.WithPrefix(), clientv3.WithCountOnly()); err != nil || all.Count != 3*42 {
		t.Errorf("etcd has %v, %v, want three keys for each write", all, err)
	}

	// The right to write the history is checked without writing.
	if err := records.CheckRight(ctx); err != nil {
		t.Error(err)
	}
	for _, step := range []func() error{
		func() error { _, err := client.UserAdd(ctx, "root", "secret"); return err },
		func() error { _, err := client.UserGrantRole(ctx, "root", "root"); return err },
		func() error { _, err := client.RoleAdd(ctx, "config"); return err },
		func() error {
			_, err := client.RoleGrantPermission(ctx, "config", "/test/config/", clientv3.GetPrefixRangeEnd("/test/config/"), clientv3.PermissionType(clientv3.PermReadWrite))
			return err
		},
		func() error { _, err := client.UserAdd(ctx, "fanoutd", "secret"); return err },
		func() error { _, err := client.UserGrantRole(ctx, "fanoutd", "config"); return err },
		func() error { _, err := client.AuthEnable(ctx); return err },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	reader, err := store.Dial(ctx, store.ExternalConfig{Endpoints: []string{address}, Username: "fanoutd", Password: "secret"}, quiet())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeStore(t, reader) })
	if err := reader.Plain("config", "/test/config/").KeepHistory().CheckRight(ctx); err == nil || !strings.Contains(err.Error(), "/test/config#history/") {
		t.Errorf("got %v, want an error that names the prefix", err)
	}
}

// Another program may write keys with any characters, which fanoutd deletes. Their records are none of another key.
func TestRecordsOfKeysWithControlCharacters(t *testing.T) {
	e, all, _ := servers(t, 1)
	r, now := all[0], time.Now()
	first := r.mustWrite(t, now, put("a", "x"))
	for _, key := range []string{"a\x00!", "a\x01", "a\x01\x01!", "a\x00"} {
		resp, err := e.client.Put(contextFor(t), "/test/config/"+key, "x")
		if err != nil {
			t.Fatal(err)
		}
		r.revision[object.Key(key)] = object.Revision(resp.Header.GetRevision())
		deleted := r.mustWrite(t, now, remove(key))
		reader := history.NewReader(r.records, false)
		page, err := reader.Page(contextFor(t), history.Query{Limit: 10, Scope: object.ExactKey(object.Key(key))})
		if err != nil || len(page.Entries) == 0 || page.Entries[0].Revision != deleted || string(page.Entries[0].Key) != key {
			t.Errorf("the history of %q is %v, %v, want its delete", key, page.Entries, err)
		}
		if last, err := reader.Last(contextFor(t), "a", first); err != nil || last == nil || last.Revision != first {
			t.Errorf("after the delete of %q, a has last change %v, %v", key, last, err)
		}
		first = r.mustWrite(t, now, put("a", "x"))
	}
}

// Without ttl, the delete of an object with a time to live is recorded if another program has replaced a recorded
// object by it.
func TestDeleteOfAnObjectWithATimeToLiveOfAnotherProgram(t *testing.T) {
	e, all, _ := servers(t, 1)
	r, now := all[0], time.Now()
	r.mustWrite(t, now, put("a", "x"))
	lease, err := e.client.Grant(contextFor(t), 600)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"a", "left-out"} {
		resp, err := e.client.Put(contextFor(t), "/test/config/"+key, "y", clientv3.WithLease(lease.ID))
		if err != nil {
			t.Fatal(err)
		}
		ops := []object.Op{remove(key)}
		ops[0].Seen = &object.Seen{ModRevision: object.Revision(resp.Header.GetRevision()), Lease: int64(lease.ID)}
		present := func(context.Context, object.Key) (*object.Record, error) { return nil, nil }
		if _, err := r.history.Prepare(contextFor(t), ops, history.Change{Time: now, Author: "me"}, present); err != nil {
			t.Fatal(err)
		}
		done, err := r.Commit(contextFor(t), ops)
		if err != nil {
			t.Fatal(err)
		}
		page, err := history.NewReader(r.records, false).Page(contextFor(t), history.Query{Limit: 10, Scope: object.ExactKey(object.Key(key))})
		switch {
		case err != nil:
			t.Error(err)
		case key == "left-out" && len(page.Entries) > 0:
			t.Errorf("got %v, want no record: the history leaves the object out", page.Entries)
		case key == "a" && (len(page.Entries) != 3 || page.Entries[0].Revision != done.Revision || page.Entries[0].Author != "me"):
			t.Errorf("got %v, want the delete, the gap and the put", page.Entries)
		}
	}
}
