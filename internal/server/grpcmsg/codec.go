package grpcmsg

import (
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // registers the codec that everything else goes to
	"google.golang.org/grpc/mem"
)

// Encoded is a response that needs no marshalling. Its pieces are shared by many
// streams and garbage-collected: mem.SliceBuffer ignores reference counts, so
// nothing is lost when a stream dies before it has sent them.
type Encoded mem.BufferSlice

// Message is what the codec sends as it is.
type Message interface {
	Buffers() mem.BufferSlice
}

// Buffers implements [message].
func (e Encoded) Buffers() mem.BufferSlice { return mem.BufferSlice(e) }

// codec passes encoded responses through and leaves the rest to protobuf.
type codec struct{ encoding.CodecV2 }

func NewCodec() encoding.CodecV2 { return codec{encoding.GetCodecV2("proto")} }

// Marshal implements encoding.CodecV2.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	switch v := v.(type) {
	case Message:
		return v.Buffers(), nil
	}
	return c.CodecV2.Marshal(v)
}

// Size returns how many bytes it has.
func (e Encoded) Size() int { return mem.BufferSlice(e).Len() }

// OnRelease returns the same response, which calls a function when it is no longer held.
func (e Encoded) OnRelease(release func()) Encoded {
	last := len(e) - 1
	l := bufferLease{release}
	e[last] = mem.NewBuffer(l.buffer(e[last].ReadOnlyData()), l)
	return e
}

// Join returns the response that is made of the pieces, one after the other.
func Join(pieces [][]byte, last []byte) Encoded {
	buffers := make([]mem.SliceBuffer, len(pieces))
	for i, p := range pieces {
		buffers[i] = p
	}
	return Chain(buffers, last)
}

// Chain is joined without a copy of the pieces, which must not be used any more.
func Chain(pieces []mem.SliceBuffer, last []byte) Encoded {
	e := make(Encoded, 0, len(pieces)+2) // often a write fence follows
	for i := range pieces {
		e = append(e, &pieces[i]) // one piece of memory for all of them
	}
	return append(e, mem.SliceBuffer(last))
}
