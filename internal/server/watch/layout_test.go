package watch

import (
	"reflect"
	"testing"
	"unsafe"

	"github.com/fanoutd/fanoutd/internal/server/grpcmsg"
)

var allocated *handler

// The fields that change with each message are in two cache lines, wherever the runtime
// allocates a handler. A handler fits its size class.
func TestFieldsThatChangeWithEachMessageAreInTwoCacheLines(t *testing.T) {
	const line = 64
	sentAt, ok := reflect.TypeFor[grpcmsg.SendWindow]().FieldByName("sentAt")
	if !ok {
		t.Fatal("the send window has no field sentAt")
	}
	for range 100 {
		w := new(handler)
		allocated = w // so that the runtime allocates it
		at := func(field unsafe.Pointer) uintptr { return uintptr(field) / line }
		for what, fields := range map[string][2]uintptr{
			"the watch":  {at(unsafe.Pointer(&w.ctx.reason)), at(unsafe.Pointer(&w.watch.at.Revision))},
			"the sender": {at(unsafe.Pointer(&w.sender.stream)), at(unsafe.Add(unsafe.Pointer(&w.sender.SendWindow), sentAt.Offset))},
		} {
			if fields[0] != fields[1] {
				t.Fatalf("the fields of %s are in lines %d and %d", what, fields[0], fields[1])
			}
		}
	}
	// The runtime uses 8 bytes of its size class of 640 bytes.
	if size := unsafe.Sizeof(handler{}); size > 632 {
		t.Errorf("got a handler of %d bytes, want at most 632", size)
	}
}
