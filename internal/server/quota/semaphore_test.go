package quota

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func named(name string) Client { return Client{Name: name} }

// wantEmpty checks that nobody holds anything, waits or is remembered.
func (q *FairSemaphore) wantEmpty(t *testing.T) {
	t.Helper()
	if taken, waiting, clients := q.Usage(); taken != 0 || waiting != 0 || clients != 0 || q.order.Len() != 0 {
		t.Errorf("%d is taken, %d wait, %d clients are known, %d have turns", taken, waiting, clients, q.order.Len())
	}
}

// One client asks a hundred times before others ask once each. Nobody waits for more
// than one of the hundred.
func TestClientsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newFairSemaphore(1)
		first, err := q.Acquire(t.Context(), named("greedy"), 1, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		var order []string
		var group sync.WaitGroup
		ask := func(name string) {
			group.Go(func() {
				s, err := q.Acquire(t.Context(), named(name), 1, time.Hour)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				order = append(order, name)
				mu.Unlock()
				s.Release()
			})
			synctest.Wait() // it is in the queue
		}
		for range 100 {
			ask("greedy")
		}
		ask("a")
		ask("b")
		first.Release()
		group.Wait()
		if at := slices.Index(order, "a"); at > 1 {
			t.Errorf("a was the number %d in turn: %v", at, order[:10])
		}
		if at := slices.Index(order, "b"); at > 2 {
			t.Errorf("b was the number %d in turn: %v", at, order[:10])
		}
		if len(order) != 102 {
			t.Errorf("%d of 102 had a turn", len(order))
		}
		q.wantEmpty(t)
	})
}

// Who takes what it can get and gives nothing back leaves as much as it takes, so
// there is something for everyone who comes later.
func TestNobodyTakesEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newFairSemaphore(64)
		want := int64(32)
		for i := range 6 {
			var held int64
			for {
				s, err := q.Acquire(t.Context(), named(fmt.Sprint(i)), 1, time.Second)
				if errors.Is(err, ErrTimeout) {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				held += s.size
			}
			if held != want {
				t.Errorf("client %d got %d, want %d", i, held, want)
			}
			want /= 2
		}
	})
}

func TestWhoWaitsIsServedInTimeOrNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newFairSemaphore(2)
		s, err := q.Acquire(t.Context(), named("a"), 5, time.Second) // more than there is counts as all
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if _, err := q.Acquire(t.Context(), named("b"), 1, 3*time.Second); !errors.Is(err, ErrTimeout) || time.Since(began) != 3*time.Second {
			t.Errorf("got %v after %v", err, time.Since(began))
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if _, err := q.Acquire(ctx, named("b"), 1, time.Hour); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		s.Shrink(1)
		b, err := q.Acquire(t.Context(), named("b"), 1, 0)
		if err != nil {
			t.Errorf("what was given back is not free: %v", err)
		}
		s.Release()
		s.Release() // no harm
		b.Release()
		q.wantEmpty(t)
	})
}

func TestWithoutALimitNobodyWaits(t *testing.T) {
	q := newFairSemaphore(0)
	for range 10 {
		s, err := q.Acquire(t.Context(), named("a"), 1<<40, 0)
		if err != nil {
			t.Fatal(err)
		}
		s.Shrink(1)
		s.Release()
	}
	q.wantEmpty(t)
}

// Whatever many clients do, no more is given out than there is, and nothing is left.
func TestTheQueueGivesOutWhatThereIs(t *testing.T) {
	const capacity, clients, rounds = 10, 20, 50
	synctest.Test(t, func(t *testing.T) {
		q := newFairSemaphore(capacity)
		var group sync.WaitGroup
		served := make([]int, clients)
		for c := range clients {
			for range 3 {
				group.Go(func() {
					random := rand.New(rand.NewPCG(uint64(c), 1))
					for range rounds {
						s, err := q.Acquire(t.Context(), named(fmt.Sprint(c)), 1+random.Int64N(4), time.Duration(random.IntN(300))*time.Millisecond)
						if err != nil {
							continue
						}
						if taken, _, _ := q.Usage(); taken > capacity {
							t.Errorf("%d of %d is given out", taken, capacity)
						}
						q.mu.Lock()
						served[c]++
						q.mu.Unlock()
						time.Sleep(time.Duration(random.IntN(20)) * time.Millisecond)
						s.Shrink(1)
						time.Sleep(time.Duration(random.IntN(20)) * time.Millisecond)
						s.Release()
					}
				})
			}
		}
		group.Wait()
		if least := slices.Min(served); least == 0 {
			t.Errorf("somebody never had a turn: %v", served)
		}
		q.wantEmpty(t)
	})
}
