package subscribe

import (
	"errors"

	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/server/apierr"
	"github.com/fanoutd/fanoutd/internal/server/backend"
	"github.com/fanoutd/fanoutd/internal/server/grpcmsg"
	"github.com/fanoutd/fanoutd/internal/server/rpc"
	"github.com/fanoutd/fanoutd/internal/wire"
)

// encoder encodes the responses of a stream. The message of a batch and a list of ids are encoded
// once, and all streams share the message. Small messages are copied, because a further piece of
// memory costs gRPC more than the copy.
type encoder struct {
	statusOf func(error) error // returns the status for an error, or nil

	entries []encodedEntry // of the response that is being sent
}

// encodedEntry is an entry of a response whose parts are encoded.
type encodedEntry struct {
	ids     []byte
	kind    wire.EntryContent
	message *grpcmsg.SharedMessage // nil: see status
	status  []byte

	size     int               // of the encoded entry
	resource *backend.Resource // of the message; set by the sink, because the watch may be gone when the entry is sent
}

// maxEntryHead is the size of the fields of an entry without its ids and its content.
const maxEntryHead = 16

// encode encodes a response. The caller then calls forget.
func (c *encoder) encode(r *dispatch.Response) grpcmsg.Pieces {
	copied, pieces := 0, 2 // the last piece, and a write fence
	c.entries = c.entries[:0]
	for i := range r.Entries {
		e := c.entry(&r.Entries[i])
		c.entries = append(c.entries, e)
		copied += maxEntryHead + len(e.ids) + len(e.status)
		switch {
		case e.message == nil:
		case e.message.Size() <= grpcmsg.CopiedBytes:
			copied += e.message.Size()
		default:
			pieces += 1 + len(e.message.Buffers())
		}
	}
	response := make(grpcmsg.Pieces, 0, pieces)
	b := make([]byte, 0, copied+maxEntryHead)
	for i := range c.entries {
		e := &c.entries[i]
		size := len(e.status)
		if e.message != nil {
			size = e.message.Size()
		}
		before := len(b)
		b = wire.AppendEntryHead(b, e.ids, e.kind, size)
		e.size = len(b) - before + size
		b = append(b, e.status...)
		switch {
		case e.message == nil:
		case size <= grpcmsg.CopiedBytes:
			for _, piece := range e.message.Buffers() {
				b = append(b, piece.ReadOnlyData()...)
			}
		default:
			response = append(append(response, mem.SliceBuffer(b)), e.message.Buffers()...)
			b = b[len(b):]
		}
	}
	if r.More {
		b = wire.AppendMore(b)
	}
	return append(response, mem.SliceBuffer(b))
}

// forget forgets the entries of the response, because messages must not stay in memory.
func (c *encoder) forget() {
	clear(c.entries)
	if c.entries = c.entries[:0]; cap(c.entries) > dispatch.MaxKeptEntries {
		c.entries = nil
	}
}

func (c *encoder) entry(e *dispatch.Entry) encodedEntry {
	encoded := encodedEntry{ids: encodedIDs(e.IDs)}
	switch {
	case e.Batch != nil:
		encoded.kind, encoded.message = wire.EntryResponse, grpcmsg.Encoded(e.Batch)
	case e.Ended != nil:
		encoded.kind, encoded.status = wire.EntryEnded, encodeStatus(c.statusOf(e.Ended.Reason))
		if e.Unbegun {
			encoded.kind = wire.EntryRefused
		}
	case errors.Is(e.Refused, errStopped):
		encoded.kind = wire.EntryEnded
	default:
		encoded.kind, encoded.status = wire.EntryRefused, encodeStatus(e.Refused)
	}
	return encoded
}

func encodedIDs(l *dispatch.IDs) []byte {
	return l.Encoded(func(ids []uint64) []byte { return wire.AppendWatchIDs(nil, ids...) })
}

// encodeStatus encodes a status. That of nil is OK, which is empty.
func encodeStatus(err error) []byte {
	if err == nil {
		return nil
	}
	b, _ := proto.Marshal(status.Convert(err).Proto()) // cannot fail: the strings are valid
	return b
}

// statusOf returns the status with which watches end. It logs and records the end, if it belongs
// there.
func (s *stream) statusOf(reason error) error {
	if reason == nil {
		return nil
	}
	i := s.service.registry.Interceptors
	result := i.Finish(s.ctx, reason)
	if denied, ok := errors.AsType[*apierr.DeniedError](reason); ok {
		i.Record(s.ctx, &rpc.Call{Identity: *s.caller.Identity, Resource: denied.Question.Resource}, fullMethod, result)
	}
	return result
}
