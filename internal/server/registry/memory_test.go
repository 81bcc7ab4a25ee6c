package registry

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// While very many watches begin or end, the collector runs as often as the size of the heap
// justifies.
func TestGarbageOfManyWatchesIsCollected(t *testing.T) {
	if heapBytes() == 0 {
		t.Error("got a heap without objects")
	}
	for name, c := range map[string]struct {
		heap    uint64
		watches int64
		want    int
	}{
		"few watches":            {heap: 0, watches: collectMin - 1, want: 0},
		"many watches":           {heap: 0, watches: 10 * collectMin, want: 10},
		"many for a small heap":  {heap: 10 * collectMin * watchGarbage, watches: 10 * collectMin, want: 4},
		"few for the whole heap": {heap: 100 * collectMin * watchGarbage, watches: 10 * collectMin, want: 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				runs := 0
				m := newMemory(func() int { return 0 })
				m.heap, m.collect = func() uint64 { return c.heap }, func() { runs++ }
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan struct{})
				go func() {
					defer close(done)
					m.run(ctx)
				}()
				for range c.watches {
					m.note()
					synctest.Wait()
				}
				if runs != c.want {
					t.Errorf("got %d collections, want %d", runs, c.want)
				}
				cancel()
				<-done
			})
		})
	}
}

// Memory is returned to the system once after many watches have begun or ended, when no more do.
func TestMemoryIsReturnedWhenTheServerIsQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var active, freed atomic.Int64
		m := newMemory(func() int { return int(active.Load()) })
		m.free, m.collect = func() { freed.Add(1) }, func() {}
		begin := func(watches int) {
			for range watches {
				m.note()
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			m.run(ctx)
		}()
		want := func(n int64, what string) {
			t.Helper()
			synctest.Wait()
			if got := freed.Load(); got != n {
				t.Errorf("%s: got %d returns of memory, want %d", what, got, n)
			}
		}
		time.Sleep(time.Second)
		for range 20 {
			begin(1000)
			time.Sleep(time.Second)
		}
		active.Store(20_000)
		want(0, "while watches begin")
		time.Sleep(2 * reclaimAfter)
		want(1, "when no more begin")
		begin(4999)
		time.Sleep(time.Minute)
		want(1, "after a few of many have ended")
		active.Store(20_004)
		begin(1)
		time.Sleep(time.Minute)
		want(1, "after a few more have ended")
		active.Store(0)
		time.Sleep(time.Minute)
		want(2, "after all have ended")
		time.Sleep(time.Hour)
		want(2, "without watches")
		cancel()
		<-done
	})
}
