package server

import (
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // registers the codec that everything else goes to
	"google.golang.org/grpc/mem"
)

// encoded is a response that needs no marshalling. Its pieces are shared by many
// streams and garbage-collected: mem.SliceBuffer ignores reference counts, so
// nothing is lost when a stream dies before it has sent them.
type encoded mem.BufferSlice

// codec passes encoded responses through and leaves the rest to protobuf.
type codec struct{ encoding.CodecV2 }

func newCodec() encoding.CodecV2 { return codec{encoding.GetCodecV2("proto")} }

// Marshal implements encoding.CodecV2.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	switch v := v.(type) {
	case *parcel:
		return v.pieces, nil
	case encoded:
		return mem.BufferSlice(v), nil
	}
	return c.CodecV2.Marshal(v)
}

// size returns how many bytes it has.
func (e encoded) size() int { return mem.BufferSlice(e).Len() }

// on returns the same response, which gives back the room that it takes when it is no
// longer held.
func (e encoded) on(room *share) encoded {
	if room == nil {
		return e
	}
	room.shrink(int64(e.size()))
	last := len(e) - 1
	l := loan{room}
	e[last] = mem.NewBuffer(l.piece(e[last].ReadOnlyData()), l)
	return e
}

// joined returns the response that is made of the pieces, one after the other.
func joined(pieces [][]byte, last []byte) encoded {
	buffers := make([]mem.SliceBuffer, len(pieces))
	for i, p := range pieces {
		buffers[i] = p
	}
	return chained(buffers, last)
}

// chained is joined without a copy of the pieces, which must not be used any more.
func chained(pieces []mem.SliceBuffer, last []byte) encoded {
	e := make(encoded, 0, len(pieces)+2) // there is often a flight behind it
	for i := range pieces {
		e = append(e, &pieces[i]) // one piece of memory for all of them
	}
	return append(e, mem.SliceBuffer(last))
}
