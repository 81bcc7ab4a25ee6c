package watch

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Memory is given back once when many watches have begun or ended and it is quiet, and
// not before.
func TestMemoryIsGivenBackWhenItIsQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var turns, active, freed atomic.Int64
		r := &reclaim{turns: turns.Load, active: func() int { return int(active.Load()) }, free: func() { freed.Add(1) }}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			r.run(ctx)
		}()
		want := func(n int64, what string) {
			t.Helper()
			synctest.Wait()
			if got := freed.Load(); got != n {
				t.Errorf("%s: memory was given back %d times, want %d", what, got, n)
			}
		}
		time.Sleep(time.Second)
		for range 20 {
			turns.Add(1000)
			time.Sleep(time.Second)
		}
		active.Store(20_000)
		want(0, "while watches begin")
		time.Sleep(2 * reclaimAfter)
		want(1, "then")
		turns.Add(4999)
		time.Sleep(time.Minute)
		want(1, "a few have ended, of many")
		active.Store(20_004)
		turns.Add(1)
		time.Sleep(time.Minute)
		want(1, "a few have ended, of many more")
		active.Store(0)
		time.Sleep(time.Minute)
		want(2, "all have ended")
		time.Sleep(time.Hour)
		want(2, "nothing happens")
		cancel()
		<-done
	})
}
