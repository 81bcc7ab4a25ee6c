package registry

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
	"time"
)

// memory limits the memory of the process while very many watches begin or end, and returns it to
// the system afterwards. The garbage that a watch leaves at its beginning is larger than the watch
// itself, and the garbage collector would wait until the memory of the process has doubled. It runs
// only while the program allocates, so the memory of ended watches would stay for minutes.
type memory struct {
	active func() int // number of present watches

	begunAndEnded atomic.Int64  // number of watches that have begun plus number of those that have ended
	due           chan struct{} // receives when more watches have begun or ended; capacity 1

	// What a test replaces.

	heap    func() uint64 // bytes of all objects, live or not
	collect func()        // runs the garbage collector
	free    func()        // returns memory to the system; the cost grows with the number of watches
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

	// reclaimAfter is the interval of the checks. A check returns memory only if no watch has
	// begun or ended since the previous check. So memory is returned 5 to 10 s after the last
	// watch has begun or ended.
	reclaimAfter = 5 * time.Second

	// reclaimMin is the number of watches that must have begun or ended since memory was last
	// returned. That many watches hold some tens of megabytes. With more than 20,000 present
	// watches, the number is a quarter of them, because returning memory has a cost for each
	// present watch.
	reclaimMin = 5000
)

func newMemory(active func() int) *memory {
	return &memory{active: active, due: make(chan struct{}, 1), heap: heapBytes, collect: runtime.GC, free: debug.FreeOSMemory}
}

// note records that a watch has begun or ended.
func (m *memory) note() {
	if m.begunAndEnded.Add(1)%collectStep != 0 {
		return
	}
	select {
	case m.due <- struct{}{}:
	default:
	}
}

// run collects garbage and returns memory when that is due, until ctx is done.
func (m *memory) run(ctx context.Context) {
	ticker := time.NewTicker(reclaimAfter)
	defer ticker.Stop()
	var collected, freed, before int64
	for {
		select {
		case <-m.due:
			now := m.begunAndEnded.Load()
			if n := now - collected; n >= collectMin && uint64(n)*watchGarbage >= m.heap()/maxHeapPerGarbage {
				m.collect()
				collected = now
			}
		case <-ticker.C:
			now := m.begunAndEnded.Load()
			if now == before && now-freed >= int64(max(reclaimMin, m.active()/4)) {
				m.free()
				freed = now
			}
			before = now
		case <-ctx.Done():
			return
		}
	}
}

// heapBytes returns the size of all objects on the heap.
func heapBytes() uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
