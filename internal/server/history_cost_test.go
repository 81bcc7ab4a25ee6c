package server

import (
	"testing"

	"github.com/fanoutd/fanoutd/internal/history"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/backend"
)

// A write to a resource without a history allocates nothing for it.
func TestResourceWithoutAHistoryPaysNothing(t *testing.T) {
	w := overwritesOf(backend.Resources{"r": {Name: "r"}})["r"]
	ops := []object.Op{{Kind: object.OpPut, Key: "a", Seen: &object.Seen{}}, {Kind: object.OpDelete, Key: "b"}}
	done := object.Commit{Revision: 1, Deleted: make([]bool, 2), Leases: make([]int64, 2), Records: make([]*object.Record, 2)}
	write := func() (object.Commit, error) { return done, nil }
	allocated := testing.AllocsPerRun(100, func() {
		if _, err := w.commit(t.Context(), ops, history.Change{}, nil, write); err != nil {
			t.Fatal(err)
		}
	})
	if allocated != 0 || ops[0].Recording != nil || ops[1].Seen != nil {
		t.Errorf("a write has allocated %v times and has the operations %+v", allocated, ops)
	}
}
