package server

import (
	"sync/atomic"

	"google.golang.org/grpc/mem"
)

// flight is the last piece of messages, an empty one. gRPC counts the references of it
// as of others, and so tells when it has written what comes before it to the buffer of
// the connection. Of streams that have ended it may forget some, so nobody waits for
// them.
type flight struct {
	mem.Buffer // empty; for what is not said here

	references atomic.Int32
	landed     func()                 // called on goroutines of gRPC
	then       atomic.Pointer[func()] // see whenOver
}

func (f *flight) init(landed func()) { f.Buffer, f.landed = mem.SliceBuffer(nil), landed }

// over reports whether everything has been written that a flight was put behind.
func (f *flight) over() bool { return f.references.Load() == 0 }

// whenOver has a function called once when the flight is over. It is called on a
// goroutine of gRPC, and of a stream that has ended perhaps never.
func (f *flight) whenOver(then func()) {
	f.then.Store(&then)
	if f.over() {
		f.callThen()
	}
}

func (f *flight) callThen() {
	if then := f.then.Swap(nil); then != nil {
		(*then)()
	}
}

// Ref implements mem.Buffer.
func (f *flight) Ref() { f.references.Add(1) }

// Free implements mem.Buffer.
func (f *flight) Free() {
	if f.references.Add(-1) == 0 {
		f.callThen()
		f.landed()
	}
}
