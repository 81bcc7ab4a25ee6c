package store_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/store"
	"github.com/fanoutd/fanoutd/test/loopback"
)

// A store that was full takes writes again after a restart, if there is space: with a
// larger quota, or when what was deleted is compacted away. Otherwise it is still full.
// (With the same quota either may be true: bbolt's file has gaps that can be closed.)
func TestAFullStoreTakesWritesAgain(t *testing.T) {
	const quota = 32 << 20
	large := strings.Repeat("x", 1<<20)
	for name, c := range map[string]struct {
		quota  int64 // after the restart
		delete bool
		full   bool
	}{
		"larger quota":        {4 * quota, false, false},
		"little is left":      {quota, true, false},
		"smaller than it was": {quota / 2, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := store.EmbeddedConfig{
				Dir: filepath.Join(t.TempDir(), "data"), ListenClient: loopback.FreeAddress(t), QuotaBytes: quota, UnsafeNoFsync: true,
			}
			open := func() (*store.Store, *store.Collection) {
				s, err := store.OpenEmbedded(contextFor(t), cfg, quiet())
				if err != nil {
					t.Fatal(err)
				}
				return s, s.Collection("test", prefix)
			}
			s, collection := open()
			written := 0
			var err error
			for ; err == nil; written++ {
				_, err = collection.Commit(contextFor(t), []object.Op{put(fmt.Sprint(written), large)})
			}
			if !errors.Is(err, object.ErrNoSpace) {
				t.Fatal(err)
			}
			if c.delete {
				var at object.Revision
				for i := range written {
					at = commit(t, collection, remove(fmt.Sprint(i)))
				}
				client := etcdClient(t, cfg.ListenClient)
				if _, err := client.Compact(contextFor(t), int64(at), clientv3.WithCompactPhysical()); err != nil {
					t.Fatal(err)
				}
			}
			closeStore(t, s)

			cfg.QuotaBytes = c.quota
			s, collection = open()
			defer closeStore(t, s)
			_, err = collection.Commit(contextFor(t), []object.Op{put("small", "1")})
			if c.full != errors.Is(err, object.ErrNoSpace) || !c.full && err != nil {
				t.Errorf("a write after the restart: %v", err)
			}
		})
	}
}
