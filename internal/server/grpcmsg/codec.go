package grpcmsg

import (
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // registers the gRPC codec for all other messages
	"google.golang.org/grpc/mem"
)

// Pieces are the encoded bytes of a message for one stream, or of the answer to a unary call. Several
// messages may share buffers. The garbage collector frees the buffers: mem.SliceBuffer ignores reference counts, so
// a stream that ends before it has sent a message leaks nothing.
type Pieces mem.BufferSlice

// Message is a message that the gRPC codec does not marshal: [Pieces] or a [SharedMessage].
type Message interface {
	Buffers() mem.BufferSlice
}

// Buffers implements [Message].
func (p Pieces) Buffers() mem.BufferSlice { return mem.BufferSlice(p) }

// grpcCodec passes the buffers of a Message on to gRPC and the bytes to a Request, and leaves all
// other messages to protobuf.
type grpcCodec struct{ encoding.CodecV2 }

// NewGRPCCodec returns the gRPC codec of the server. server.New installs it for all connections.
// (A value codec is another thing: it decodes the stored values of a resource. See object.Codec.)
func NewGRPCCodec() encoding.CodecV2 { return grpcCodec{encoding.GetCodecV2("proto")} }

// Request is a request that decodes itself.
type Request interface {
	// Decode decodes the request. The bytes are valid only during the call.
	Decode(b []byte) error
}

// Unmarshal implements encoding.CodecV2.
func (c grpcCodec) Unmarshal(data mem.BufferSlice, v any) error {
	if r, ok := v.(Request); ok {
		b := data.MaterializeToBuffer(mem.DefaultBufferPool())
		defer b.Free()
		return r.Decode(b.ReadOnlyData())
	}
	return c.CodecV2.Unmarshal(data, v)
}

// Marshal implements encoding.CodecV2.
func (c grpcCodec) Marshal(v any) (mem.BufferSlice, error) {
	switch v := v.(type) {
	case Message:
		return v.Buffers(), nil
	}
	return c.CodecV2.Marshal(v)
}

// Size returns the number of bytes of the message.
func (p Pieces) Size() int { return mem.BufferSlice(p).Len() }

// OnRelease changes the last piece so that release is called when gRPC no longer holds the
// message, possibly more than once. It returns the changed pieces.
func (p Pieces) OnRelease(release func()) Pieces {
	last := len(p) - 1
	l := bufferLease{release}
	p[last] = mem.NewBuffer(l.buffer(p[last].ReadOnlyData()), l)
	return p
}

// Follow returns the message that consists of a piece and what end appends to a slice. It copies a
// small piece, which costs less than a further piece.
func Follow(piece []byte, end func([]byte) []byte) Pieces {
	if len(piece) > CopiedBytes {
		return Join([][]byte{piece}, end(nil))
	}
	b := make([]byte, 0, len(piece)+headerBytes)
	return Chain(nil, end(append(b, piece...)))
}

// Join returns the message that consists of the pieces and last.
func Join(pieces [][]byte, last []byte) Pieces {
	buffers := make([]mem.SliceBuffer, len(pieces))
	for i, p := range pieces {
		buffers[i] = p
	}
	return Chain(buffers, last)
}

// Chain is like Join, but does not copy the slice of pieces. The caller must not use the slice
// afterwards.
func Chain(pieces []mem.SliceBuffer, last []byte) Pieces {
	p := make(Pieces, 0, len(pieces)+2) // with room for last and a write fence
	for i := range pieces {
		p = append(p, &pieces[i]) // pointers into one allocation
	}
	return append(p, mem.SliceBuffer(last))
}
