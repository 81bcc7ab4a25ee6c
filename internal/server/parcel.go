package server

import (
	"google.golang.org/grpc/mem"

	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/wire"
)

// parcel is a response that is used again for the next message of its watch when it has
// been sent, so that a message costs no memory but that of gRPC.
type parcel struct {
	pieces mem.BufferSlice
	room   [parcelPieces + 2]mem.Buffer // for pieces
	events [parcelPieces]piece
	last   piece
	header []byte // in last
}

// parcelPieces is how many pieces of events a parcel has room for. Those of one message
// lie in one segment of the log, or in two.
const parcelPieces = 2

// piece is a part of a response whose slice header is part of something else.
type piece struct{ mem.SliceBuffer }

// pack puts a message into the parcel, and the flight behind it.
func (p *parcel) pack(m *dispatch.Message, f *flight) {
	p.pieces = p.room[:0]
	for i, events := range m.Events {
		if i < parcelPieces {
			p.events[i].SliceBuffer = events
			p.pieces = append(p.pieces, &p.events[i])
		} else {
			p.pieces = append(p.pieces, mem.SliceBuffer(events))
		}
	}
	p.header = wire.AppendHeader(p.header[:0], m.Header)
	p.last.SliceBuffer = p.header
	p.pieces = append(p.pieces, &p.last, f)
}

// unpack forgets the events, which belong to the log.
func (p *parcel) unpack() {
	p.events = [parcelPieces]piece{}
	p.room = [parcelPieces + 2]mem.Buffer{}
	p.pieces = nil
}
