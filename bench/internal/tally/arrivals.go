package tally

import "sync/atomic"

const (
	chunkEvents = 1 << 12
	chunks      = 1 << 15 // later events are not followed to their last watcher
)

// arrivals counts, for each event, the watchers that have received it.
type arrivals struct {
	chunks [chunks]atomic.Pointer[[chunkEvents]atomic.Uint32]
}

// add counts an arrival and returns the number of arrivals of the event. It returns 0 for
// events that are not followed.
func (a *arrivals) add(event uint64) uint32 {
	if event >= chunkEvents*chunks {
		return 0
	}
	slot := &a.chunks[event/chunkEvents]
	chunk := slot.Load()
	if chunk == nil {
		slot.CompareAndSwap(nil, new([chunkEvents]atomic.Uint32))
		chunk = slot.Load()
	}
	return chunk[event%chunkEvents].Add(1)
}
