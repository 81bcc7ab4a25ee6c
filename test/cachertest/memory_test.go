package cachertest_test

import (
	"context"
	"testing"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/cachertest"
	"github.com/fanoutd/fanoutd/test/storetest"
)

// A Memory behaves like a store of a server, unless a test makes it fail.
func TestMemoryIsAStore(t *testing.T) {
	storetest.Reads(t, func(*testing.T) *storetest.Fixture {
		m := cachertest.NewMemory()
		return &storetest.Fixture{
			Store: m, ForCaches: true,
			Commit: func(_ context.Context, ops []object.Op) (object.Commit, error) {
				writes := map[object.Key][]byte{}
				for _, op := range ops {
					writes[op.Key] = op.Value
				}
				return object.Commit{Revision: m.Commit(writes)}, nil
			},
			Elsewhere: func(testing.TB) object.Revision { return m.Commit(nil) },
			Compact:   func(_ testing.TB, at object.Revision) { m.Change(func() { m.Compacted = at }) },
			Restore:   func(testing.TB) { m.Restart("e2") },
		}
	})
}
