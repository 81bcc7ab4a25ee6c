package registry

import (
	"context"
	"runtime"
	"runtime/metrics"
)

// collect runs the garbage collector while very many watches begin or end. The
// garbage that a watch leaves at its beginning is larger than the watch itself. Without
// collect, the garbage collector would wait until the memory of the process has doubled.
type collect struct {
	begunAndEnded func() int64  // see reclaim.begunAndEnded
	heap          func() uint64 // bytes of all objects, live or not
	run           func()        // runs the collector
	due           chan struct{} // receives when more watches have begun or ended; capacity 1
}

const (
	// collectStep is the number of watches that begin or end between two checks.
	collectStep = 1024

	// collectMin is the number of watches that must have begun or ended since the last
	// collection.
	collectMin = 4 * collectStep

	// watchGarbage is the size of the garbage that a watch leaves when it begins or ends.
	watchGarbage = 16 << 10

	// maxHeapPerGarbage limits when the collector runs: only if the heap is at most this many
	// times as large as the garbage of watches. The cost of a collection grows with the heap.
	maxHeapPerGarbage = 4
)

func newCollect(begunAndEnded func() int64) *collect {
	return &collect{begunAndEnded: begunAndEnded, heap: heapBytes, run: runtime.GC, due: make(chan struct{}, 1)}
}

// note records that a watch has begun or ended. The argument n is how often this has happened
// so far.
func (c *collect) note(n int64) {
	if n%collectStep != 0 {
		return
	}
	select {
	case c.due <- struct{}{}:
	default:
	}
}

// serve runs the collector whenever a collection is due, until ctx is done.
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
