package work

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// KeyTurns lets goroutines that work on the same keys take turns, first come, first served. A key costs nothing while no
// goroutine has its turn.
type KeyTurns[K cmp.Ordered] struct {
	// Patience is how long a goroutine waits while the turn of a key does not move on. It must be set.
	Patience time.Duration

	taken atomic.Int64 // how many turns goroutines have
	mu    sync.Mutex
	turns map[K]*keyTurn // guarded by mu
}

// keyTurn is the turn of a key, which a goroutine has. KeyTurns.mu guards the fields.
type keyTurn struct {
	waiting []chan struct{} // of the goroutines that wait, in order; closed when they have the turn
	moves   int             // how often the turn has moved on
}

// ErrStuck is the error of [KeyTurns.Take] if the turn of a key does not move on.
var ErrStuck = errors.New("the turn of a key does not move on")

// Busy reports whether a goroutine has the turn of a key.
func (t *KeyTurns[K]) Busy(key K) bool {
	if t.taken.Load() == 0 {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.turns[key] != nil
}

// Take waits for the turns of some keys, which must be in order and different, so that goroutines never wait for each
// other. It reports whether it had to wait. If ctx ends, Take returns its cause. The caller must not have turns, and must
// call Leave with the same keys, except after an error.
func (t *KeyTurns[K]) Take(ctx context.Context, keys []K) (waited bool, err error) {
	for i, key := range keys {
		mine := t.join(key)
		if mine == nil {
			continue
		}
		waited = true
		if err := t.wait(ctx, key, mine); err != nil {
			t.Leave(keys[:i])
			return waited, err
		}
	}
	return waited, nil
}

// Leave gives the turns of some keys to the next goroutines.
func (t *KeyTurns[K]) Leave(keys []K) {
	if len(keys) == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, key := range keys {
		turn := t.turns[key]
		if len(turn.waiting) == 0 {
			delete(t.turns, key)
			t.taken.Add(-1)
			continue
		}
		close(turn.waiting[0])
		turn.waiting, turn.moves = turn.waiting[1:], turn.moves+1
	}
}

// join takes the turn of a key and returns nil, or joins the goroutines that wait for it.
func (t *KeyTurns[K]) join(key K) (mine chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	turn := t.turns[key]
	if turn == nil {
		if t.turns == nil {
			t.turns = map[K]*keyTurn{}
		}
		t.turns[key] = &keyTurn{}
		t.taken.Add(1)
		return nil
	}
	mine = make(chan struct{})
	turn.waiting = append(turn.waiting, mine)
	return mine
}

// wait waits until mine is closed.
func (t *KeyTurns[K]) wait(ctx context.Context, key K, mine chan struct{}) error {
	timer := time.NewTimer(t.Patience)
	defer timer.Stop()
	for moves := t.moves(key); ; {
		var err error
		select {
		case <-mine:
			return nil
		case <-ctx.Done():
			err = context.Cause(ctx)
		case <-timer.C:
			if now := t.moves(key); now != moves {
				moves = now
				timer.Reset(t.Patience)
				continue
			}
			err = ErrStuck
		}
		if t.quit(key, mine) {
			return err
		}
		return nil // it has just got the turn
	}
}

func (t *KeyTurns[K]) moves(key K) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.turns[key].moves // a goroutine that waits, or has the turn, keeps it in the map
}

// quit leaves the goroutines that wait. It returns false if the goroutine has the turn.
func (t *KeyTurns[K]) quit(key K, mine chan struct{}) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	turn := t.turns[key]
	i := slices.Index(turn.waiting, mine)
	if i < 0 {
		return false
	}
	turn.waiting = slices.Delete(turn.waiting, i, i+1)
	return true
}
