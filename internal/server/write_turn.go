package server

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/work"
)

// writeTurn is the turn of a write of this server to keys that others of its writes change at the same time. Without
// turns, writes that have just begun could be faster each time than one that has lost its comparison.
//
// A write asks for its turn when it has lost, or before it begins if another one has the turn of one of its keys. It
// asks once.
type writeTurn struct {
	turns *work.KeyTurns[object.Key]
	asked bool
	keys  []object.Key // whose turn it has
}

// turnPatience is how long a write waits while no other one ends. Then it tries without its turn: if etcd does not answer,
// writes to one key must not fail one after the other.
const turnPatience = 2 * time.Second

// isNeeded reports whether other writes have the turn of a key.
func (t *writeTurn) isNeeded(ops []object.Op) bool {
	for i := range ops {
		if ops[i].Implied() && t.turns.Busy(ops[i].Key) {
			return true
		}
	}
	return false
}

// await waits for the turn, if the write has not asked for it yet. It reports whether other writes may have changed
// the keys meanwhile.
func (t *writeTurn) await(ctx context.Context, ops []object.Op) (waited bool, err error) {
	if t.asked {
		return false, nil
	}
	t.asked = true
	var keys []object.Key
	for i := range ops {
		if ops[i].Implied() {
			keys = append(keys, ops[i].Key)
		}
	}
	slices.Sort(keys)
	keys = slices.Compact(keys)
	waited, err = t.turns.Take(ctx, keys)
	switch {
	case err == nil:
		t.keys = keys
	case !errors.Is(err, work.ErrStuck):
		return waited, ctx.Err()
	}
	return waited, nil
}

// leave gives the turn to the next write.
func (t *writeTurn) leave() { t.turns.Leave(t.keys) }
