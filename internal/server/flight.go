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
	landed     func() // called on goroutines of gRPC
}

func (f *flight) init(landed func()) { f.Buffer, f.landed = mem.SliceBuffer(nil), landed }

// over reports whether everything has been written that a flight was put behind.
func (f *flight) over() bool { return f.references.Load() == 0 }

// Ref implements mem.Buffer.
func (f *flight) Ref() { f.references.Add(1) }

// Free implements mem.Buffer.
func (f *flight) Free() {
	if f.references.Add(-1) == 0 {
		f.landed()
	}
}
