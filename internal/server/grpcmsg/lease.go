package grpcmsg

import "runtime"

// bufferLease gives a share back when a response is no longer held: when gRPC has sent it or
// dropped it with its stream. gRPC does not say so of the streams of a connection
// that breaks; those the garbage collector finds.
type bufferLease struct{ release func() }

// leaseBytes is more than what gRPC would not bother to count the references of.
const leaseBytes = 1<<10 + 1

// buffer returns the bytes as a piece of a response, after which the loan ends.
func (l bufferLease) buffer(b []byte) *[]byte {
	data := make([]byte, len(b), max(len(b), leaseBytes))
	copy(data, b)
	runtime.AddCleanup(&data[:1][0], func(release func()) { release() }, l.release)
	return &data
}

// Get implements mem.BufferPool. Nobody gets anything from a loan.
func (bufferLease) Get(length int) *[]byte { return new(make([]byte, length)) }

// Put implements mem.BufferPool.
func (l bufferLease) Put(*[]byte) { l.release() }
