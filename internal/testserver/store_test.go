package testserver

import (
	"testing"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/poll"
	"github.com/fanoutd/fanoutd/test/storetest"
)

// The store in memory behaves like that of a server in production.
func TestStore(t *testing.T) {
	open := func(*testing.T) *storetest.Fixture {
		s := newStore([]string{"config", "elsewhere"})
		config, elsewhere := s.collections[0], s.collections[1]
		return &storetest.Fixture{
			Store: config, Commit: config.Commit, ForCaches: true,
			Elsewhere: func(t testing.TB) object.Revision {
				t.Helper()
				done, err := elsewhere.Commit(poll.Context(t), []object.Op{{Kind: object.OpPut, Key: "k"}})
				if err != nil {
					t.Fatal(err)
				}
				return done.Revision
			},
			Compact: func(_ testing.TB, at object.Revision) {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.compacted = at
				s.wakeLocked()
			},
			Restore: func(testing.TB) { s.begin() },
		}
	}
	storetest.Reads(t, open)
	storetest.Writes(t, open)
}
