package dispatch

import (
	"testing"
	"unsafe"
)

var allocated *Watcher

// The fields of a watcher that the worker reads for each batch share a cache line at the
// addresses that the runtime chooses, and a watcher has no more than three lines.
func TestFieldsReadForEachBatchShareACacheLine(t *testing.T) {
	const line = 64
	if size := unsafe.Sizeof(Watcher{}); size != 3*line {
		t.Errorf("a watcher has %d bytes, want %d", size, 3*line)
	}
	for range 100 {
		w := new(Watcher)
		allocated = w // so that the runtime allocates it
		if first, last := uintptr(unsafe.Pointer(w)), uintptr(unsafe.Pointer(&w.schedule)); first/line != last/line {
			t.Fatalf("the fields begin at offset %d of a line and end at offset %d of another", first%line, last%line)
		}
	}
}
