package client_test

import (
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

// A value that the server cannot decrypt is no value: an informer keeps the last one
// that was good, and says so.
func TestWhatCannotBeDecryptedIsNoValue(t *testing.T) {
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
	if err := inf.WaitForState(within(t)); err != nil {
		t.Fatal(err)
	}

	direct, err := clientv3.New(clientv3.Config{Endpoints: []string{etcd}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer direct.Close()
	other, err := direct.Get(within(t), "/fanoutd/config/b")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := direct.Put(within(t), "/fanoutd/config/a", string(other.Kvs[0].Value)); err != nil {
		t.Fatal(err)
	}
	if key := <-failed; key != "a" {
		t.Errorf("told of %s", key)
	}
	for now, _ := inf.Lister().Get("a"); now.Invalid == nil; now, _ = inf.Lister().Get("a") {
		if now.Value != "1" {
			t.Fatalf("it is %+v", now)
		}
	}
	for key, want := range map[string]bool{"a": true, "b": false} {
		o, err := r.Get(within(t), key)
		if err != nil {
			t.Fatal(err)
		}
		if o.Undecryptable() != want || want != (o.Value == nil) {
			t.Errorf("got %+v", o)
		}
	}
}
