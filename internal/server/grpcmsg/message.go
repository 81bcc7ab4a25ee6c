package grpcmsg

import (
	"google.golang.org/grpc/mem"

	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/wire"
)

// SharedMessage is one encoded message that many watches send. It is made once.
type SharedMessage struct {
	pieces mem.BufferSlice
	size   int
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
		return &SharedMessage{mem.BufferSlice(joined), joined.Size()}
	}
	b := make([]byte, 0, size+headerBytes)
	for _, p := range pieces {
		b = append(b, p...)
	}
	b = appendHeader(b)
	return &SharedMessage{mem.BufferSlice{mem.SliceBuffer(b)}, len(b)}
}

// Buffers implements [Message].
func (m *SharedMessage) Buffers() mem.BufferSlice { return m.pieces }

// Size returns the number of bytes.
func (m *SharedMessage) Size() int { return m.size }

// WithFence returns the message followed by a fence, for one stream. The caller has called
// [WriteFence.Ref].
func (m *SharedMessage) WithFence(f *WriteFence) Response {
	pieces := make(Response, 0, len(m.pieces)+1)
	return append(append(pieces, m.pieces...), f)
}

// Encoded returns the encoded message of a batch. All watches share it, whatever their entrance.
func Encoded(b *feed.Batch) *SharedMessage { return b.Encoded(encode).(*SharedMessage) }

func encode(m *feed.Message) any {
	return NewSharedMessage(m.Events, func(b []byte) []byte { return wire.AppendHeader(b, m.Header) })
}
