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

// wantEmpty checks that nothing is held, no client waits, and no client is remembered.
func (q *FairSemaphore) wantEmpty(t *testing.T) {
	t.Helper()
	if taken, waiting, clients := q.Usage(); taken != 0 || waiting != 0 || clients != 0 || q.order.Len() != 0 {
		t.Errorf("got %d taken, %d waiting, %d clients, %d clients in order; want none", taken, waiting, clients, q.order.Len())
	}
}

// One client asks a hundred times, and then two others ask once. Each of these waits for no more
// than one request of every other client.
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
			synctest.Wait() // the request is queued
		}
		for range 100 {
			ask("greedy")
		}
		ask("a")
		ask("b")
		first.Release()
		group.Wait()
		if at := slices.Index(order, "a"); at > 1 {
			t.Errorf("got client a at index %d of %v, want at most 1", at, order[:10])
		}
		if at := slices.Index(order, "b"); at > 2 {
			t.Errorf("got client b at index %d of %v, want at most 2", at, order[:10])
		}
		if len(order) != 102 {
			t.Errorf("got %d served requests, want 102", len(order))
		}
		q.wantEmpty(t)
	})
}

// A client that takes as much as it can and releases nothing gets half of what is free. The rest
// is left for later clients.
func TestOneClientCannotTakeEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newFairSemaphore(64)
		want := int64(32)
		for i := range 6 {
			var held int64
			for {
				s, err := q.Acquire(t.Context(), named(fmt.Sprint(i)), 1, time.Second)
				if errors.Is(err, errTimeout) {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				held += s.size
			}
			if held != want {
				t.Errorf("client %d: got %d, want %d", i, held, want)
			}
			want /= 2
		}
	})
}

func TestWaitingEndsWithTheTimeoutOrTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newFairSemaphore(2)
		s, err := q.Acquire(t.Context(), named("a"), 5, time.Second) // a larger amount than the capacity counts as the capacity
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if _, err := q.Acquire(t.Context(), named("b"), 1, 3*time.Second); !errors.Is(err, errTimeout) || time.Since(began) != 3*time.Second {
			t.Errorf("got %v after %v, want %v after 3s", err, time.Since(began), errTimeout)
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if _, err := q.Acquire(ctx, named("b"), 1, time.Hour); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want %v", err, context.Canceled)
		}
		s.Shrink(1)
		b, err := q.Acquire(t.Context(), named("b"), 1, 0)
		if err != nil {
			t.Errorf("got %v after Shrink, want no error", err)
		}
		s.Release()
		s.Release() // has no effect
		b.Release()
		q.wantEmpty(t)
	})
}

func TestWithoutALimitNoClientWaits(t *testing.T) {
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

// With many concurrent clients, the semaphore never exceeds its capacity, and every client is
// served.
func TestSemaphoreKeepsItsCapacity(t *testing.T) {
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
							t.Errorf("got %d taken, want at most %d", taken, capacity)
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
			t.Errorf("got served requests %v, want some for each client", served)
		}
		q.wantEmpty(t)
	})
}

// The number of reservations that wait can be limited. A client gets no more of these places
// than it leaves free, and those that may wait in any case take none.
func TestPlacesToWaitAreShared(t *testing.T) {
	const most = 8
	synctest.Test(t, func(t *testing.T) {
		q := newFairSemaphore(1)
		first, err := q.Acquire(t.Context(), named("first"), 1, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var group sync.WaitGroup
		defer group.Wait()
		wait := func(name string) (waits bool) {
			crowded := make(chan struct{})
			group.Go(func() {
				s, err := q.AcquireOrRefuse(ctx, named(name), 1, time.Hour, most)
				if errors.Is(err, errCrowded) {
					close(crowded)
				} else if err == nil {
					s.Release()
				}
			})
			synctest.Wait()
			select {
			case <-crowded:
				return false
			default:
				return true
			}
		}
		for range 3 {
			group.Go(func() {
				if s, err := q.Acquire(ctx, named("others"), 1, time.Hour); err == nil {
					s.Release()
				}
			})
		}
		for _, c := range []struct {
			name string
			want int
		}{{"greedy", 4}, {"modest", 2}, {"late", 1}, {"later", 0}} {
			got := 0
			for wait(c.name) {
				got++
			}
			if got != c.want {
				t.Errorf("%s: got %d places, want %d", c.name, got, c.want)
			}
		}
		first.Release() // all others follow
		group.Wait()
		if !wait("greedy") {
			t.Error("after all have been served, a client was refused")
		}
		q.wantEmpty(t)
		if q.queued != 0 {
			t.Errorf("got %d queued, want 0", q.queued)
		}
	})
}
