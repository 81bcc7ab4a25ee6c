package delivery

import "sync/atomic"

const (
	chunkEvents = 1 << 12
	chunks      = 1 << 15 // arrivals of later events are not counted
)

// arrivals counts, for each event, the watchers that have received it.
type arrivals struct {
	chunks [chunks]atomic.Pointer[[chunkEvents]atomic.Uint32]
}

// add counts an arrival and returns the number of arrivals of the event. It returns 0 for
// events whose number is too large to count.
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
