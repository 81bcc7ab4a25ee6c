package store_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fanoutd/fanoutd/internal/crypt"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/store"
)

// vault is a cipher that calls a hook before each encryption.
type vault struct {
	*crypt.Values
	before func(key string)
}

func (v *vault) Seal(key string, value []byte) ([]byte, error) {
	if v.before != nil {
		v.before(key)
	}
	return v.Values.Seal(key, value)
}

func newVault(t *testing.T) *vault {
	t.Helper()
	keyset, _, err := crypt.Create()
	if err != nil {
		t.Fatal(err)
	}
	keys := crypt.NewKeyring(quiet())
	if err := keys.Use(keyset); err != nil {
		t.Fatal(err)
	}
	return &vault{Values: keys.Values(true)}
}

func rewrite(t *testing.T, c *store.Collection, limit, batch int) object.RewriteResult {
	t.Helper()
	done, err := c.Rewrite(contextFor(t), "", limit, batch)
	if err != nil {
		t.Fatal(err)
	}
	return done
}

// Commit and Rewrite encrypt values of the largest configurable size, even if etcd allows
// only one operation per transaction.
func TestLargeValuesAreEncrypted(t *testing.T) {
	for _, operations := range []int{1, 128} {
		e := embedded(t, store.EmbeddedConfig{MaxTransactionOps: operations})
		v := newVault(t)
		plain, c := e.collection(), e.Collection("test", prefix, v)
		large := strings.Repeat("x", 1472<<10)
		longest := strings.Repeat("k", object.MaxKeyBytes)
		commit(t, plain, put("a", large))
		commit(t, plain, put("b", large))
		commit(t, c, put(longest, large))
		for _, key := range []string{"c", "d", "e"} {
			commit(t, plain, put(key, "small"))
		}
		done := rewrite(t, c, 1000, min(16, operations))
		if done != (object.RewriteResult{Examined: 6, Rewritten: 5, Next: object.Key(longest + "\x00")}) {
			t.Errorf("with %d operations: got %+v", operations, done)
		}
		all, err := e.client.Get(contextFor(t), prefix, clientv3.WithPrefix())
		if err != nil {
			t.Fatal(err)
		}
		for _, kv := range all.Kvs {
			if bytes.Contains(kv.Value, []byte("xxxx")) || bytes.Contains(kv.Value, []byte("small")) || !v.IsCurrent(kv.Value) {
				t.Errorf("the value of %s is not encrypted", kv.Key)
			}
		}
		now, err := c.Revision(contextFor(t))
		if err != nil {
			t.Fatal(err)
		}
		records := list(t, c, now, 2)
		if len(records) != 6 || string(records[0].Value) != large || string(records[5].Value) != large || string(records[2].Value) != "small" {
			t.Errorf("got %d records, want 6 with the written values", len(records))
		}
	}
}

// A write between the read and the transaction of a rewrite wins. The rewrite still
// covers the other records of the transaction.
func TestRewriteYieldsToConcurrentWrites(t *testing.T) {
	both(t, func(t *testing.T, e *etcd) {
		v := newVault(t)
		plain, c := e.collection(), e.Collection("test", prefix, v)
		for _, key := range []string{"a", "b", "c", "d", "e"} {
			commit(t, plain, put(key, "old"))
		}
		interfere := map[string]func(){
			"/test/a": func() { commit(t, plain, put("a", "by another program")) },
			"/test/b": func() { commit(t, e.Collection("test", prefix, v.Values), put("b", "by another server")) },
			"/test/c": func() { commit(t, plain, remove("c")) },
		}
		v.before = func(key string) {
			if f := interfere[key]; f != nil {
				delete(interfere, key)
				f()
			}
		}
		done := rewrite(t, c, 1000, 16)
		if done.Examined != 5 || done.Rewritten != 2 || done.Contended != 1 || done.More {
			t.Errorf("got %+v", done)
		}
		now, err := c.Revision(contextFor(t))
		if err != nil {
			t.Fatal(err)
		}
		if got := show(list(t, c, now, 100)); got != "a=by another program b=by another server d=old e=old" {
			t.Errorf("got %s", got)
		}
		if done := rewrite(t, c, 1000, 16); done.Rewritten != 1 || done.Contended != 0 {
			t.Errorf("second rewrite: got %+v, want one rewritten record", done)
		}
		if done := rewrite(t, c, 1000, 16); done.Rewritten != 0 {
			t.Errorf("third rewrite: got %+v, want nothing to rewrite", done)
		}
	})
}

// A rewritten key keeps its lease. A lease that expires during the rewrite removes its
// key.
func TestRewriteKeepsLeases(t *testing.T) {
	both(t, func(t *testing.T, e *etcd) {
		v := newVault(t)
		c := e.Collection("test", prefix, v)
		var leases []clientv3.LeaseID
		for _, key := range []string{"a", "b", "c"} {
			lease, err := e.client.Grant(contextFor(t), 1000)
			if err != nil {
				t.Fatal(err)
			}
			leases = append(leases, lease.ID)
			if _, err := e.client.Put(contextFor(t), prefix+key, "old", clientv3.WithLease(lease.ID)); err != nil {
				t.Fatal(err)
			}
		}
		v.before = func(key string) {
			v.before = nil
			if _, err := e.client.Revoke(contextFor(t), leases[1]); err != nil {
				t.Error(err)
			}
		}
		if done := rewrite(t, c, 1000, 16); done.Rewritten != 2 || done.Contended != 0 {
			t.Errorf("got %+v", done)
		}
		all, err := e.client.Get(contextFor(t), prefix, clientv3.WithPrefix())
		if err != nil {
			t.Fatal(err)
		}
		if len(all.Kvs) != 2 || all.Kvs[0].Lease != int64(leases[0]) || all.Kvs[1].Lease != int64(leases[2]) {
			t.Errorf("got %v, want a and c with their leases", all.Kvs)
		}
		if _, err := e.client.Revoke(contextFor(t), leases[0]); err != nil {
			t.Fatal(err)
		}
		now, err := c.Revision(contextFor(t))
		if err != nil {
			t.Fatal(err)
		}
		if got := show(list(t, c, now, 100)); got != "c=old" {
			t.Errorf("got %s, want c=old", got)
		}
	})
}

// A write that cannot be encrypted changes nothing and creates no lease.
func TestCommitFailsWithoutAnEncryptionKey(t *testing.T) {
	e := embedded(t, store.EmbeddedConfig{})
	c := e.Collection("test", prefix, crypt.NewKeyring(quiet()).Values(true))
	op := put("k", "v")
	op.TTL = 1000e9
	if _, err := c.Commit(contextFor(t), []object.Op{op}); err == nil || errors.Is(err, object.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
	leases, err := e.client.Leases(contextFor(t))
	if err != nil || len(leases.Leases) != 0 {
		t.Errorf("got leases %v, %v, want none", leases, err)
	}
}
