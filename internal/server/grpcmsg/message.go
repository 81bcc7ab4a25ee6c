package grpcmsg

import "google.golang.org/grpc/mem"

// EncodedMessage is a message as gRPC takes it. All watches that send it share it.
type EncodedMessage struct {
	pieces mem.BufferSlice
	size   int
}

// smallMessage is the size up to which a message is copied into one piece of memory. One
// piece costs less for each watch than the copy costs once.
const smallMessage = 4 << 10

// headerBytes is room for what a message has besides its events.
const headerBytes = 64

// NewEncodedMessage returns the message that consists of the pieces and a header, which
// appendHeader appends to a slice.
func NewEncodedMessage(pieces [][]byte, appendHeader func([]byte) []byte) *EncodedMessage {
	size := 0
	for _, p := range pieces {
		size += len(p)
	}
	if size > smallMessage {
		joined := Join(pieces, appendHeader(nil))
		return &EncodedMessage{mem.BufferSlice(joined), joined.Size()}
	}
	b := make([]byte, 0, size+headerBytes)
	for _, p := range pieces {
		b = append(b, p...)
	}
	b = appendHeader(b)
	return &EncodedMessage{mem.BufferSlice{mem.SliceBuffer(b)}, len(b)}
}

// Buffers implements [Message].
func (m *EncodedMessage) Buffers() mem.BufferSlice { return m.pieces }

// Size returns the number of bytes.
func (m *EncodedMessage) Size() int { return m.size }

// WithFence returns the message with a fence after it. The caller has called Ref.
func (m *EncodedMessage) WithFence(f *WriteFence) Encoded {
	pieces := make(Encoded, 0, len(m.pieces)+1)
	return append(append(pieces, m.pieces...), f)
}
