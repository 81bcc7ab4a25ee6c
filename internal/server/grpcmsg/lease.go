package grpcmsg

import "runtime"

// bufferLease calls release when gRPC frees a buffer: when it has sent the response, or has
// dropped it with its stream. gRPC frees nothing if the connection breaks; the garbage
// collector then finds the buffer.
type bufferLease struct{ release func() }

// leaseBytes is the smallest buffer whose references gRPC counts.
const leaseBytes = 1<<10 + 1

// buffer returns a copy of b that ends the lease when it is freed.
func (l bufferLease) buffer(b []byte) *[]byte {
	data := make([]byte, len(b), max(len(b), leaseBytes))
	copy(data, b)
	runtime.AddCleanup(&data[:1][0], func(release func()) { release() }, l.release)
	return &data
}

// Get implements mem.BufferPool. gRPC never calls it on a lease.
func (bufferLease) Get(length int) *[]byte { return new(make([]byte, length)) }

// Put implements mem.BufferPool.
func (l bufferLease) Put(*[]byte) { l.release() }
