package app_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/natefinch/atomic"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/app"
	"github.com/fanoutd/fanoutd/internal/config"
	"github.com/fanoutd/fanoutd/internal/crypt"
	"github.com/fanoutd/fanoutd/test/loopback"
)

// The keyset is reloaded when its file changes, and its values can be read after a restart.
// Resources with encrypt: off are stored in plain text.
func TestKeysetIsReloaded(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	cfg := testConfig(t)
	cfg.EmbeddedEtcdListen = loopback.FreeAddress(t)
	cfg.KeysetFile = filepath.Join(t.TempDir(), "keys.json")
	open := config.NewResource("open")
	open.Encrypt = "off"
	cfg.Resources = append(cfg.Resources, open)
	keyset, id, err := crypt.Create()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(cfg.KeysetFile, keyset, 0o600); err != nil {
		t.Fatal(err)
	}
	conn, stop := start(t, cfg)
	put := func(resource, key string) {
		t.Helper()
		_, err := fanoutv1.NewStoreServiceClient(conn).Put(t.Context(), &fanoutv1.PutRequest{
			Resource: resource, Put: &fanoutv1.PutOperation{Key: key, Value: &fanoutv1.PutOperation_Text{Text: "secret"}},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	put("config", "a")
	put("open", "a")
	if keyset, _, err = crypt.Add(keyset); err != nil {
		t.Fatal(err)
	}
	keyset, promoted, err := crypt.Promote(keyset, 0)
	if err != nil {
		t.Fatal(err)
	}
	// A running server uses a keyset even if its permissions are insecure.
	if err := os.Chmod(cfg.KeysetFile, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := atomic.WriteFile(cfg.KeysetFile, bytes.NewReader(keyset)); err != nil {
		t.Fatal(err)
	}
	for primary := id; primary != promoted; {
		all, err := fanoutv1.NewAdminServiceClient(conn).ListResources(t.Context(), &fanoutv1.ListResourcesRequest{})
		if err != nil {
			t.Fatal(err)
		}
		primary = all.GetResources()[0].GetPrimaryKeyId()
		if primary != id && primary != promoted {
			t.Fatalf("got primary key %d", primary)
		}
	}
	put("config", "b")

	etcd, err := clientv3.New(clientv3.Config{Endpoints: []string{cfg.EmbeddedEtcdListen}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer etcd.Close()
	stored, err := etcd.Get(t.Context(), "/fanoutd/", clientv3.WithPrefix())
	if err != nil || len(stored.Kvs) != 3+4 { // the history of config has two keys for each write
		t.Fatalf("got %v, %v", stored, err)
	}
	for _, kv := range stored.Kvs {
		plain := strings.HasPrefix(string(kv.Key), "/fanoutd/open/")
		if plain != bytes.Contains(kv.Value, []byte("secret")) {
			t.Errorf("%s is stored as %q", kv.Key, kv.Value)
		}
	}
	stop()
	if err := os.Chmod(cfg.KeysetFile, 0o600); err != nil {
		t.Fatal(err)
	}

	conn, stop = start(t, cfg)
	defer stop()
	for _, key := range []string{"a", "b"} {
		got, err := fanoutv1.NewFanoutServiceClient(conn).Get(t.Context(), &fanoutv1.GetRequest{Resource: "config", Key: key})
		if err != nil || got.GetObject().GetText() != "secret" {
			t.Errorf("%s: got %v, %v", key, got, err)
		}
	}
}

func TestInsecureAndInvalidKeysetsAreRefused(t *testing.T) {
	keyset, _, err := crypt.Create()
	if err != nil {
		t.Fatal(err)
	}
	for name, file := range map[string]struct {
		content []byte
		mode    os.FileMode
		want    string
	}{
		"readable":      {keyset, 0o604, "all users of this machine can access the file (mode 0604)"},
		"writable":      {keyset, 0o602, "all users of this machine can access the file"},
		"no keyset":     {[]byte("{}"), 0o600, "not an unencrypted Tink keyset"},
		"for the group": {keyset, 0o440, ""},
	} {
		cfg := testConfig(t)
		cfg.KeysetFile = filepath.Join(t.TempDir(), "keys.json")
		if err := os.WriteFile(cfg.KeysetFile, file.content, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(cfg.KeysetFile, file.mode); err != nil {
			t.Fatal(err)
		}
		a, err := app.Build(t.Context(), cfg, testLog(t))
		if file.want != "" {
			if err == nil || !strings.Contains(err.Error(), file.want) {
				t.Errorf("%s: %v", name, err)
			}
			if _, err := os.Stat(cfg.DataDir); !os.IsNotExist(err) {
				t.Errorf("%s: a database was created", name)
			}
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		stopAtOnce(t, a)
	}
}
