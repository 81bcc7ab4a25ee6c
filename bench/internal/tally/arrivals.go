package tally

import "sync/atomic"

const (
	chunkEvents = 1 << 12
	chunks      = 1 << 15 // so many events at most are followed to their last watcher
)

// arrivals counts at how many watchers each event has arrived.
type arrivals struct {
	chunks [chunks]atomic.Pointer[[chunkEvents]atomic.Uint32]
}

// add counts an arrival and returns how many there are; 0 for events beyond those
// that are followed.
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
