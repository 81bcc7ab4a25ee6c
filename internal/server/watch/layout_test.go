package watch

import (
	"reflect"
	"testing"
	"unsafe"

	"github.com/fanoutd/fanoutd/internal/server/grpcmsg"
)

var allocated *handler

// The fields that change with each message are in one cache line, wherever the runtime
// allocates a handler. A handler fits its size class.
func TestFieldsThatChangeWithEachMessageAreInOneCacheLine(t *testing.T) {
	const line = 64
	sentAt, ok := reflect.TypeFor[grpcmsg.SendWindow]().FieldByName("sentAt")
	if !ok {
		t.Fatal("the send window has no field sentAt")
	}
	for range 100 {
		w := new(handler)
		allocated = w // so that the runtime allocates it
		at := func(field unsafe.Pointer) uintptr { return uintptr(field) / line }
		first, last := at(unsafe.Pointer(&w.sink.stream)), at(unsafe.Add(unsafe.Pointer(&w.sink.SendWindow), sentAt.Offset))
		if first != last {
			t.Fatalf("the fields are in lines %d and %d", first, last)
		}
	}
	// Larger objects begin 8 bytes after the beginning of a line.
	if size := unsafe.Sizeof(handler{}); size > 512 {
		t.Errorf("got a handler of %d bytes, want at most 512", size)
	}
}
