package work

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestKeyTurnsAreServedInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := KeyTurns[string]{Patience: time.Second}
		if waited, err := turns.Take(t.Context(), []string{"a"}); waited || err != nil {
			t.Fatal(waited, err)
		}
		if !turns.Busy("a") || turns.Busy("b") {
			t.Error("want that only a is busy")
		}
		served := make(chan int)
		for n := range 10 {
			go func() {
				if waited, err := turns.Take(t.Context(), []string{"a", "b"}); !waited || err != nil {
					t.Error(waited, err)
				}
				served <- n
				turns.Leave([]string{"a", "b"})
			}()
			synctest.Wait()
		}
		turns.Leave([]string{"a"})
		for n := range 10 {
			if got := <-served; got != n {
				t.Errorf("got %d, want %d", got, n)
			}
		}
		synctest.Wait()
		if turns.Busy("a") || turns.Busy("b") || len(turns.turns) > 0 {
			t.Errorf("%d keys are still busy", len(turns.turns))
		}
	})
}

func TestKeyTurnsEndWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := KeyTurns[string]{Patience: time.Second}
		if _, err := turns.Take(t.Context(), []string{"b"}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		ended := make(chan error)
		go func() {
			_, err := turns.Take(ctx, []string{"a", "b"})
			ended <- err
		}()
		synctest.Wait()
		if !turns.Busy("a") {
			t.Error("want that a is busy")
		}
		stopped := errors.New("stopped")
		cancel(stopped)
		if err := <-ended; !errors.Is(err, stopped) {
			t.Errorf("got %v", err)
		}
		if turns.Busy("a") || !turns.Busy("b") {
			t.Error("want that only b is busy")
		}
		turns.Leave([]string{"b"})
		if len(turns.turns) > 0 || turns.taken.Load() != 0 {
			t.Errorf("%d keys are still busy", len(turns.turns))
		}
	})
}

// A goroutine waits for as long as the turn moves on, in the same order. It does not wait for one that keeps the turn.
func TestKeyTurnsThatDoNotMoveOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := KeyTurns[string]{Patience: time.Second}
		keys := []string{"a"}
		var served []int // guarded by the turn
		var group sync.WaitGroup
		for n := range 10 {
			group.Go(func() {
				if _, err := turns.Take(t.Context(), keys); err != nil {
					t.Error(err)
				}
				defer turns.Leave(keys)
				time.Sleep(turns.Patience - 1)
				served = append(served, n)
			})
			synctest.Wait()
		}
		group.Wait()
		if !slices.IsSorted(served) || len(served) != 10 {
			t.Errorf("got %v", served)
		}

		if _, err := turns.Take(t.Context(), keys); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			group.Go(func() {
				if waited, err := turns.Take(t.Context(), keys); !waited || !errors.Is(err, ErrStuck) {
					t.Errorf("got %v, %v", waited, err)
				}
			})
		}
		group.Wait()
		turns.Leave(keys)
		if turns.Busy("a") {
			t.Error("want that a is free")
		}
	})
}

// Goroutines that need several keys do not wait for each other, and no two have the same key.
func TestKeyTurnsOfSeveralKeys(t *testing.T) {
	turns := KeyTurns[int]{Patience: time.Minute}
	var has [5]int
	var group sync.WaitGroup
	for seed := range 8 {
		group.Go(func() {
			random := rand.New(rand.NewPCG(uint64(seed), 0))
			for range 1000 {
				keys := random.Perm(len(has))[:1+random.IntN(3)]
				slices.Sort(keys)
				if _, err := turns.Take(t.Context(), keys); err != nil {
					t.Error(err)
				}
				for _, key := range keys {
					has[key]++ // the race detector notices another goroutine
				}
				turns.Leave(keys)
			}
		})
	}
	group.Wait()
	if len(turns.turns) > 0 {
		t.Errorf("%d keys are still busy", len(turns.turns))
	}
}

func TestKeyTurnsCostNothingWhenIdle(t *testing.T) {
	turns := KeyTurns[string]{Patience: time.Second}
	if n := testing.AllocsPerRun(100, func() { turns.Busy("a") }); n > 0 {
		t.Errorf("got %v allocations", n)
	}
}
