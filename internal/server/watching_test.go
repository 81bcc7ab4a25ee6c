package server

import (
	"testing"
	"unsafe"
)

var placed *watching

// What a worker looks at for each message is in two lines of a processor's cache, where the
// runtime puts a watch, and a watch is no larger than it has to be.
func TestWhatAMessageLooksAtIsTogether(t *testing.T) {
	const line = 64
	for range 100 {
		w := new(watching)
		placed = w // so it is where the runtime allocates
		at := func(field unsafe.Pointer) uintptr { return uintptr(field) / line }
		for what, fields := range map[string][2]uintptr{
			"the session": {at(unsafe.Pointer(&w.ends.reason)), at(unsafe.Pointer(&w.session.at.Revision))},
			"the way out": {at(unsafe.Pointer(&w.sender.stream)), at(unsafe.Pointer(&w.sender.covered))},
		} {
			if fields[0] != fields[1] {
				t.Fatalf("%s is in lines %d to %d", what, fields[0], fields[1])
			}
		}
	}
	// There is a size of 704 bytes, of which the runtime takes 8.
	if size := unsafe.Sizeof(watching{}); size > 696 {
		t.Errorf("a watch has %d bytes", size)
	}
}
