package registry

import (
	"context"
	"testing"
	"testing/synctest"
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
				var so int64
				runs := 0
				collector := newCollect(func() int64 { return so })
				collector.heap, collector.run = func() uint64 { return c.heap }, func() { runs++ }
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan struct{})
				go func() {
					defer close(done)
					collector.serve(ctx)
				}()
				for so < c.watches {
					so++
					collector.note(so)
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
