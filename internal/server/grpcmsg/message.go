package grpcmsg

import (
	"bytes"
	"runtime"
	"sync/atomic"

	"google.golang.org/grpc/mem"

	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/wire"
)

// SharedMessage is one encoded message that many watches send. It is made once.
type SharedMessage struct {
	pieces mem.BufferSlice
	size   int
	entry  atomic.Pointer[entryMessage] // the latest; see EncodedEntry
}

// entryMessage is a response of Subscribe that has one entry.
type entryMessage struct {
	ids     []byte
	message *SharedMessage
}

// smallMessage is the size up to which the pieces of a message are copied into one. Each further
// piece costs something for each watch; the copy is made once for all watches.
const smallMessage = 4 << 10

// CopiedBytes is the largest size at which copying a message into the response of a stream is cheaper than
// a reference to it. Each stream makes its own copy.
const CopiedBytes = 1 << 10

// headerBytes is the room for the header, which follows the events in a message.
const headerBytes = 64

// NewSharedMessage returns the message that consists of the pieces and a header, which
// appendHeader appends to a slice.
func NewSharedMessage(pieces [][]byte, appendHeader func([]byte) []byte) *SharedMessage {
	size := 0
	for _, p := range pieces {
		size += len(p)
	}
	if size > smallMessage {
		joined := Join(pieces, appendHeader(nil))
		return &SharedMessage{pieces: mem.BufferSlice(joined), size: joined.Size()}
	}
	b := make([]byte, 0, size+headerBytes)
	for _, p := range pieces {
		b = append(b, p...)
	}
	b = appendHeader(b)
	return &SharedMessage{pieces: mem.BufferSlice{mem.SliceBuffer(b)}, size: len(b)}
}

// Buffers implements [Message].
func (m *SharedMessage) Buffers() mem.BufferSlice { return m.pieces }

// Size returns the number of bytes.
func (m *SharedMessage) Size() int { return m.size }

// WithFence returns the message followed by a fence, for one stream. The caller has called
// [WriteFence.Ref].
func (m *SharedMessage) WithFence(f *WriteFence) Pieces {
	pieces := make(Pieces, 0, len(m.pieces)+1)
	return append(append(pieces, m.pieces...), f)
}

// Encoded returns the encoded message of a batch. All watches share it, whatever their entrance.
func Encoded(b *feed.Batch) *SharedMessage { return b.Encoded(encode).(*SharedMessage) }

// EncodedEntry returns the encoded response of Subscribe that has only the message of a batch, for the
// watches with the encoded ids. Most clients number their watches alike, so streams that send the batch
// one after another often share the response, too.
func EncodedEntry(b *feed.Batch, ids []byte) *SharedMessage {
	m := Encoded(b)
	if latest := m.entry.Load(); latest != nil && bytes.Equal(latest.ids, ids) {
		return latest.message
	}
	entry := &entryMessage{ids, m.newEntry(ids)}
	m.entry.Store(entry)
	return entry.message
}

func (m *SharedMessage) newEntry(ids []byte) *SharedMessage {
	head := wire.AppendEntryHead(make([]byte, 0, len(ids)+headerBytes+CopiedBytes), ids, wire.EntryResponse, m.size)
	e := &SharedMessage{size: len(head) + m.size}
	if m.size > CopiedBytes {
		e.pieces = append(mem.BufferSlice{mem.SliceBuffer(head)}, m.pieces...)
		return e
	}
	for _, p := range m.pieces {
		head = append(head, p.ReadOnlyData()...)
	}
	e.pieces = mem.BufferSlice{mem.SliceBuffer(head)}
	return e
}

func encode(m *feed.Message) any {
	return NewSharedMessage(m.Events, func(b []byte) []byte { return wire.AppendHeader(b, m.Header) })
}

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
