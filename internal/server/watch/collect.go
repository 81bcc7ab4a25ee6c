package watch

import (
	"context"
	"runtime"
	"runtime/metrics"
)

// collect runs the garbage collector while very many watches begin or end. Beginning a watch
// leaves more garbage than a watch holds, and by itself the collector waits until the memory
// of the process has doubled.
type collect struct {
	begunAndEnded func() int64  // see reclaim
	heap          func() uint64 // bytes of all objects, live or not
	run           func()        // runs the collector
	due           chan struct{} // capacity 1: more watches have begun or ended
}

const (
	// collectStep is how many watches begin or end between two checks.
	collectStep = 1024

	// collectMin is how many watches must have begun or ended since the last collection.
	collectMin = 4 * collectStep

	// watchGarbage is how much garbage the beginning and the end of one watch leave.
	watchGarbage = 16 << 10

	// maxHeapPerGarbage bounds the cost of a collection, which grows with the heap: the heap is
	// at most so many times as large as the garbage.
	maxHeapPerGarbage = 4
)

func newCollect(begunAndEnded func() int64) *collect {
	return &collect{begunAndEnded: begunAndEnded, heap: heapBytes, run: runtime.GC, due: make(chan struct{}, 1)}
}

// note notes that a watch has begun or ended; n is the number of these so far.
func (c *collect) note(n int64) {
	if n%collectStep != 0 {
		return
	}
	select {
	case c.due <- struct{}{}:
	default:
	}
}

// serve runs the collector when that is due, until ctx is done.
func (c *collect) serve(ctx context.Context) {
	var collected int64
	for {
		select {
		case <-c.due:
		case <-ctx.Done():
			return
		}
		now := c.begunAndEnded()
		if n := now - collected; n >= collectMin && uint64(n)*watchGarbage >= c.heap()/maxHeapPerGarbage {
			c.run()
			collected = now
		}
	}
}

// heapBytes returns the size of all objects on the heap.
func heapBytes() uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
