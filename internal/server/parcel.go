package server

import (
	"google.golang.org/grpc/mem"

	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/server/grpcmsg"
	"github.com/fanoutd/fanoutd/internal/wire"
)

// parcel is a message as gRPC takes it. All watches that are told it share it.
type parcel struct {
	pieces mem.BufferSlice
	size   int
}

// Buffers implements [message].
func (p *parcel) Buffers() mem.BufferSlice { return p.pieces }

// smallParcel is what is copied together: a message of a few events then is one piece of
// memory, which costs less for each watch than the copy costs once.
const smallParcel = 4 << 10

// pack makes a parcel of a message. It is what a [dispatch.Batch] is formed with.
func pack(m *dispatch.Message) any {
	size := 0
	for _, events := range m.Events {
		size += len(events)
	}
	if size > smallParcel {
		pieces := grpcmsg.Join(m.Events, wire.AppendHeader(nil, m.Header))
		return &parcel{mem.BufferSlice(pieces), pieces.Size()}
	}
	b := make([]byte, 0, size+headerBytes)
	for _, events := range m.Events {
		b = append(b, events...)
	}
	b = wire.AppendHeader(b, m.Header)
	return &parcel{mem.BufferSlice{mem.SliceBuffer(b)}, len(b)}
}

// headerBytes is room for what a message says besides its events.
const headerBytes = 64

// parcelOf returns the parcel of a message, which is made once.
func parcelOf(t *dispatch.Batch) *parcel { return t.Encoded(pack).(*parcel) }

// with returns the parcel with a flight behind it.
func (p *parcel) with(f *flight) grpcmsg.Encoded {
	pieces := make(grpcmsg.Encoded, 0, len(p.pieces)+1)
	return append(append(pieces, p.pieces...), f)
}
