package server

import (
	"sync/atomic"

	"google.golang.org/grpc/mem"
)

// flight is what a watch has handed to gRPC and gRPC has not written to the buffer of
// the connection yet. It is the last piece of each message, an empty one, of which gRPC
// counts the references as it does of others. Of streams that have ended it may forget
// some, so nobody waits for them.
type flight struct {
	mem.Buffer // empty; for what is not said here

	references atomic.Int32
	landing    func() // before nothing is on its way any more
	landed     func() // after that
}

func newFlight(landing, landed func()) *flight {
	return &flight{Buffer: mem.SliceBuffer(nil), landing: landing, landed: landed}
}

// over reports whether nothing is on its way. gRPC then has room for a message, and
// does not make who sends it wait.
func (f *flight) over() bool { return f.references.Load() == 0 }

// Ref implements mem.Buffer.
func (f *flight) Ref() { f.references.Add(1) }

// Free implements mem.Buffer. It is called on goroutines of gRPC.
func (f *flight) Free() {
	for {
		n := f.references.Load()
		if n == 1 {
			f.landing()
		}
		if !f.references.CompareAndSwap(n, n-1) {
			continue
		}
		if n == 1 {
			f.landed()
		}
		return
	}
}
