package parts

import "testing"

// A part that fits the limit only with coalesced pieces is cached.
func TestSmallObjectsAreShared(t *testing.T) {
	const objects = 100
	m, b := &Cache{}, &Budget{}
	whole := Part{End: Cut{Bytes: objects}, IsLast: true}
	for range objects {
		whole.Pieces = append(whole.Pieces, []byte{1})
	}
	for limit, want := range map[int64]int{2 * whole.coalescedSize(): 1, 2*whole.coalescedSize() - 1: 3} {
		b.Limit = limit
		m.startLocked(nil)
		calls := 0
		for range 3 {
			p := m.Part(nil, Key{}, b, func() Part {
				calls++
				return whole
			})
			if n := len(p.Pieces); want == 1 && n != 1 || want > 1 && n != objects {
				t.Errorf("limit %d: got a part of %d pieces", limit, n)
			}
		}
		if held := m.parts[Key{}]; m.bytes != b.Bytes.Load() || want == 1 && m.bytes != held.size() || want > 1 && m.bytes != 0 {
			t.Errorf("limit %d: got %d counted bytes of the cache, and %d of all", limit, m.bytes, b.Bytes.Load())
		}
		if calls != want {
			t.Errorf("limit %d: the part was made %d times, want %d", limit, calls, want)
		}
		if m.Empty(b); m.bytes != 0 || b.Bytes.Load() != 0 {
			t.Errorf("limit %d: got %d counted bytes of the empty cache, and %d of all", limit, m.bytes, b.Bytes.Load())
		}
	}
}
