package client_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/internal/config"
	"github.com/fanoutd/fanoutd/internal/crypt"
	"github.com/fanoutd/fanoutd/test/loopback"
)

// An informer keeps the last value that could be decrypted, and marks the item.
func TestUndecryptableValuesAreUnknown(t *testing.T) {
	t.Parallel()
	etcd := loopback.FreeAddress(t)
	s := newServer(t, func(c *config.Config) {
		c.EmbeddedEtcdListen = etcd
		c.KeysetFile = filepath.Join(t.TempDir(), "keys.json")
		keyset, _, err := crypt.Create()
		if err == nil {
			err = os.WriteFile(c.KeysetFile, keyset, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	})
	r := newClient(t, s.Address()).Resource("config")
	put(t, r, "a", "1")
	put(t, r, "b", "")
	inf := client.NewInformer(r, func(o *client.Object) (string, error) { return string(o.Value), nil })
	failed := make(chan string, 10)
	inf.AddHandler(client.Handler[string]{Error: func(o *client.Object, _ error) { failed <- o.Key }})
	run(t, inf)
	if err := inf.WaitForState(testContext(t)); err != nil {
		t.Fatal(err)
	}

	direct, err := clientv3.New(clientv3.Config{Endpoints: []string{etcd}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer direct.Close()
	other, err := direct.Get(testContext(t), "/fanoutd/config/b")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := direct.Put(testContext(t), "/fanoutd/config/a", string(other.Kvs[0].Value)); err != nil {
		t.Fatal(err)
	}
	if key := <-failed; key != "a" {
		t.Errorf("got an error for %s, want a", key)
	}
	for now, _ := inf.Lister().Get("a"); now.Invalid == nil; now, _ = inf.Lister().Get("a") {
		if now.Value != "1" {
			t.Fatalf("got %+v, want the old value", now)
		}
	}
	for key, want := range map[string]bool{"a": true, "b": false} {
		o, err := r.Get(testContext(t), key)
		if err != nil {
			t.Fatal(err)
		}
		if o.Undecryptable() != want || want != (o.Value == nil) {
			t.Errorf("got %+v", o)
		}
		if _, err := r.Put(testContext(t), key, o.AsValue()); errors.Is(err, client.ErrUnknownValue) != want {
			t.Errorf("write %s as it was read: got %v, want %v: %v", key, err, client.ErrUnknownValue, want)
		}
	}
}
