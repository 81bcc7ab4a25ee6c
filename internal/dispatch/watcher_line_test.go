package dispatch

import (
	"testing"
	"unsafe"
)

var told *Watcher

// What is looked at for each message is in one line of a processor's cache, where the
// runtime puts a watcher.
func TestWhatAMessageLooksAtIsTogether(t *testing.T) {
	const line = 64
	for range 100 {
		w := new(Watcher)
		told = w // so it is where the runtime allocates
		if first, last := uintptr(unsafe.Pointer(w)), uintptr(unsafe.Pointer(&w.clock)); first/line != last/line {
			t.Fatalf("it begins %d bytes behind a line and ends %d behind another", first%line, last%line)
		}
	}
}
