package dispatch

import "testing"

// A part that fits the limit only with coalesced pieces is cached.
func TestSmallObjectsAreShared(t *testing.T) {
	const objects = 100
	m, b := &catchUpCache{}, &catchUpBudget{}
	whole := part{end: batchCut{bytes: objects}, isLast: true}
	for range objects {
		whole.pieces = append(whole.pieces, []byte{1})
	}
	for limit, want := range map[int64]int{2 * whole.coalescedSize(): 1, 2*whole.coalescedSize() - 1: 3} {
		b.limit = limit
		m.startLocked(nil)
		calls := 0
		for range 3 {
			p := m.part(nil, partKey{}, b, func() part {
				calls++
				return whole
			})
			if n := len(p.pieces); want == 1 && n != 1 || want > 1 && n != objects {
				t.Errorf("limit %d: got a part of %d pieces", limit, n)
			}
		}
		if held := m.parts[partKey{}]; m.bytes != b.bytes.Load() || want == 1 && m.bytes != held.size() || want > 1 && m.bytes != 0 {
			t.Errorf("limit %d: got %d counted bytes of the cache, and %d of all", limit, m.bytes, b.bytes.Load())
		}
		if calls != want {
			t.Errorf("limit %d: the part was made %d times, want %d", limit, calls, want)
		}
		if m.empty(b); m.bytes != 0 || b.bytes.Load() != 0 {
			t.Errorf("limit %d: got %d counted bytes of the empty cache, and %d of all", limit, m.bytes, b.bytes.Load())
		}
	}
}
