package grpcmsg

import (
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // registers the codec that everything else goes to
	"google.golang.org/grpc/mem"
)

// Encoded is a response that needs no marshalling. Many streams may share its buffers. The
// garbage collector frees them: mem.SliceBuffer ignores reference counts, so a stream that ends
// before it has sent them leaks nothing.
type Encoded mem.BufferSlice

// Message is a message that the codec does not marshal.
type Message interface {
	Buffers() mem.BufferSlice
}

// Buffers implements [Message].
func (e Encoded) Buffers() mem.BufferSlice { return mem.BufferSlice(e) }

// codec sends a Message as it is, and leaves all others to protobuf.
type codec struct{ encoding.CodecV2 }

// NewCodec returns the codec of the server.
func NewCodec() encoding.CodecV2 { return codec{encoding.GetCodecV2("proto")} }

// Marshal implements encoding.CodecV2.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	switch v := v.(type) {
	case Message:
		return v.Buffers(), nil
	}
	return c.CodecV2.Marshal(v)
}

// Size returns the number of bytes.
func (e Encoded) Size() int { return mem.BufferSlice(e).Len() }

// OnRelease returns the same response, which calls release when it is no longer in memory. It
// may call release more than once.
func (e Encoded) OnRelease(release func()) Encoded {
	last := len(e) - 1
	l := bufferLease{release}
	e[last] = mem.NewBuffer(l.buffer(e[last].ReadOnlyData()), l)
	return e
}

// Join returns the response that consists of the pieces and last.
func Join(pieces [][]byte, last []byte) Encoded {
	buffers := make([]mem.SliceBuffer, len(pieces))
	for i, p := range pieces {
		buffers[i] = p
	}
	return Chain(buffers, last)
}

// Chain is Join for pieces that the caller gives away: it does not copy the slice.
func Chain(pieces []mem.SliceBuffer, last []byte) Encoded {
	e := make(Encoded, 0, len(pieces)+2) // often a write fence follows
	for i := range pieces {
		e = append(e, &pieces[i]) // pointers into one allocation
	}
	return append(e, mem.SliceBuffer(last))
}
