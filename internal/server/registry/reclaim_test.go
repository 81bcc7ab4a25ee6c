package registry

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Memory is returned to the system once after many watches have begun or ended, when no more do.
func TestMemoryIsReturnedWhenTheServerIsQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var begunAndEnded, active, freed atomic.Int64
		r := &reclaim{begunAndEnded: begunAndEnded.Load, active: func() int { return int(active.Load()) }, free: func() { freed.Add(1) }}
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
				t.Errorf("%s: got %d returns of memory, want %d", what, got, n)
			}
		}
		time.Sleep(time.Second)
		for range 20 {
			begunAndEnded.Add(1000)
			time.Sleep(time.Second)
		}
		active.Store(20_000)
		want(0, "while watches begin")
		time.Sleep(2 * reclaimAfter)
		want(1, "when no more begin")
		begunAndEnded.Add(4999)
		time.Sleep(time.Minute)
		want(1, "after a few of many have ended")
		active.Store(20_004)
		begunAndEnded.Add(1)
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
