package store_test

import (
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/storetest"
)

// An etcd is a store of a server, embedded or not. See TestStreamDeliversNothingOfARestoredEtcd for its
// epochs.
func TestEtcdIsAStore(t *testing.T) {
	for name, open := range stores {
		fixture := func(t *testing.T) *storetest.Fixture {
			e := open(t)
			c, other := e.collection(), e.Plain("elsewhere", "/elsewhere/")
			return &storetest.Fixture{
				Store: c, Commit: c.Commit,
				Elsewhere: func(t testing.TB) object.Revision {
					t.Helper()
					return commit(t, other, put("k", "v"))
				},
				Compact: func(t testing.TB, at object.Revision) {
					t.Helper()
					if _, err := e.client.Compact(t.Context(), int64(at), clientv3.WithCompactPhysical()); err != nil {
						t.Fatal(err)
					}
				},
			}
		}
		t.Run(name, func(t *testing.T) {
			storetest.Reads(t, fixture)
			storetest.Writes(t, fixture)
		})
	}
}
