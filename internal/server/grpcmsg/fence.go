package grpcmsg

import (
	"sync/atomic"

	"google.golang.org/grpc/mem"
)

// WriteFence is an empty buffer that the sender appends to messages. gRPC frees it when it has
// written everything before it to the buffer of the connection. The fence is then released. gRPC
// may forget the buffers of streams that have ended, so a goroutine must not wait for a fence
// longer than for its stream.
type WriteFence struct {
	mem.Buffer // empty; has the methods that WriteFence does not define

	references atomic.Int32
	released   func()
	once       atomic.Pointer[func()] // see OnRelease
}

// Init sets the function that is called each time the fence is released. gRPC's goroutines call
// it, so it must not wait.
func (f *WriteFence) Init(released func()) { f.Buffer, f.released = mem.SliceBuffer(nil), released }

// Released reports whether the fence is in no message that gRPC has not written yet.
func (f *WriteFence) Released() bool { return f.references.Load() == 0 }

// OnRelease calls a function once, when the fence is released, or at once if it is. If the stream
// ends earlier, gRPC may never release the fence.
func (f *WriteFence) OnRelease(then func()) {
	f.once.Store(&then)
	if f.Released() {
		f.callOnce()
	}
}

func (f *WriteFence) callOnce() {
	if then := f.once.Swap(nil); then != nil {
		(*then)()
	}
}

// Ref implements mem.Buffer.
func (f *WriteFence) Ref() { f.references.Add(1) }

// Free implements mem.Buffer.
func (f *WriteFence) Free() {
	if f.references.Add(-1) == 0 {
		f.callOnce()
		f.released()
	}
}
