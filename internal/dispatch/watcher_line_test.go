package dispatch

import (
	"testing"
	"unsafe"
)

var (
	allocated       *cursor
	allocatedStream *Stream
)

// A group uses two cache lines of each member's cursor for each batch, and one of its stream, at the
// addresses that the runtime chooses. A cursor has no more than five lines.
func TestFieldsUsedForEachBatchAreInFewCacheLines(t *testing.T) {
	const line = 64
	if size := unsafe.Sizeof(cursor{}); size > 5*line {
		t.Errorf("a cursor has %d bytes, want at most %d", size, 5*line)
	}
	for range 100 {
		c, s := new(cursor), new(Stream)
		allocated, allocatedStream = c, s // so that the runtime allocates them
		if first, last := uintptr(unsafe.Pointer(c)), uintptr(unsafe.Pointer(&c.messages)); first%line > 0 || last/line-first/line > 1 {
			t.Fatalf("the fields of a cursor begin at offset %d of a line and have %d bytes", first%line, last-first)
		}
		if first, last := uintptr(unsafe.Pointer(s)), uintptr(unsafe.Pointer(&s.sink)); first/line != last/line {
			t.Fatalf("the fields of a stream begin at offset %d of a line and end at offset %d of another", first%line, last%line)
		}
	}
}
