package grpcmsg

import (
	"sync/atomic"

	"google.golang.org/grpc/mem"
)

// WriteFence is an empty buffer that the sender appends to messages. gRPC frees a buffer
// when it has written everything before it to the buffer of the connection, so the fence
// tells when that is done. gRPC may forget the buffers of streams that have ended, so
// a goroutine must not wait for a fence longer than for its stream.
type WriteFence struct {
	mem.Buffer // empty; provides the methods that are not below

	references atomic.Int32
	released   func()
	once       atomic.Pointer[func()] // see OnRelease
}

// Init sets the function that is called each time when everything before the fence has
// been written. gRPC's goroutines call it, so it must not wait.
func (f *WriteFence) Init(released func()) { f.Buffer, f.released = mem.SliceBuffer(nil), released }

// Released reports whether everything before the fence has been written.
func (f *WriteFence) Released() bool { return f.references.Load() == 0 }

// OnRelease calls a function once when everything before the fence has been written. If the
// stream ends before, that may never happen.
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
