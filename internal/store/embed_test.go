package store_test

import (
	"bytes"
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fanoutd/fanoutd/internal/store"
	"github.com/fanoutd/fanoutd/test/loopback"
)

func open(t *testing.T, dir string) *store.Store {
	t.Helper()
	s, err := store.OpenEmbedded(contextFor(t), store.EmbeddedConfig{Dir: dir, UnsafeNoFsync: true}, quiet())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestEmbeddedStoreKeepsItsData(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "data")
	s := open(t, dir)
	c := s.Collection("test", prefix)
	at := commit(t, c, put("k", "v"))
	epoch, err := c.Epoch(contextFor(t))
	if err != nil {
		t.Fatal(err)
	}
	closeStore(t, s)

	s = open(t, dir)
	defer closeStore(t, s)
	c = s.Collection("test", prefix)
	if got := show(list(t, c, at, 10)); got != "k=v" {
		t.Errorf("the state is %s", got)
	}
	if again, err := c.Epoch(contextFor(t)); err != nil || again != epoch {
		t.Errorf("the epoch was %s and is %s, %v", epoch, again, err)
	}
}

func TestDirectoryBelongsToOne(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	s := open(t, dir)
	second, err := store.OpenEmbedded(contextFor(t), store.EmbeddedConfig{Dir: dir}, quiet())
	if err == nil {
		closeStore(t, second)
		t.Fatal("two stores have one directory")
	}
	if !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), "in use") {
		t.Errorf("the error says %q", err)
	}
	closeStore(t, s)
	closeStore(t, open(t, dir))
}

func TestEmbeddedStoreThatCannotStart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	taken := open(t, filepath.Join(t.TempDir(), "other"))
	defer closeStore(t, taken)
	if _, err := store.OpenEmbedded(contextFor(t), store.EmbeddedConfig{Dir: dir, ListenClient: "nowhere:1"}, quiet()); err == nil {
		t.Fatal("it listens at nowhere:1")
	}
	// The lock was given back.
	closeStore(t, open(t, dir))

	given, cancel := context.WithCancel(t.Context())
	cancel()
	if s, err := store.OpenEmbedded(given, store.EmbeddedConfig{Dir: dir, UnsafeNoFsync: true}, quiet()); err == nil {
		closeStore(t, s) // it was ready at once
	}
	closeStore(t, open(t, dir))
}

// What etcd has to say goes to our log.
func TestLogOfTheEmbeddedEtcd(t *testing.T) {
	for name, listen := range map[string]string{"alone": "", "with clients": loopback.FreeAddress(t)} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			log := slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
			cfg := store.EmbeddedConfig{Dir: filepath.Join(t.TempDir(), "data"), ListenClient: listen, UnsafeNoFsync: true}
			s, err := store.OpenEmbedded(contextFor(t), cfg, log)
			if err != nil {
				t.Fatal(err)
			}
			if listen != "" {
				if _, err := etcdClient(t, listen).Get(contextFor(t), "a"); err != nil {
					t.Error(err)
				}
			}
			closeStore(t, s)
			for line := range strings.Lines(out.String()) {
				if !strings.Contains(line, `"component":"etcd"`) {
					t.Errorf("a line without its origin: %s", line)
				}
				if strings.Contains(line, `"level":"ERROR"`) || strings.Contains(line, `"level":"WARN"`) {
					t.Errorf("all is well, but there is %s", line)
				}
			}
			if out.Len() == 0 {
				t.Error("etcd says nothing")
			}
		})
	}
}
