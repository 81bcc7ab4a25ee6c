package subscribe

import (
	"bytes"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// decoder decodes the requests of a stream. Clients start many watches that differ only in their
// ids, so it decodes the WatchRequest of a start only if it differs from the latest one. It
// implements [grpcmsg.Request].
type decoder struct {
	request *fanoutv1.SubscribeRequest // the latest request

	encoded []byte                 // the WatchRequest of the latest start; empty: there is none to share
	decoded *fanoutv1.WatchRequest // the same, decoded; must not be modified
}

// maxSharedRequest is the largest WatchRequest that a stream keeps.
const maxSharedRequest = 1 << 10

// Decode implements [grpcmsg.Request].
func (d *decoder) Decode(b []byte) error {
	id, encoded, ok := splitStart(b)
	if ok && bytes.Equal(encoded, d.encoded) {
		d.request = &fanoutv1.SubscribeRequest{Request: &fanoutv1.SubscribeRequest_Start_{
			Start: &fanoutv1.SubscribeRequest_Start{WatchId: id, Request: d.decoded},
		}}
		return nil
	}
	d.request = &fanoutv1.SubscribeRequest{}
	if err := proto.Unmarshal(b, d.request); err != nil {
		return err
	}
	if ok && len(encoded) <= maxSharedRequest {
		d.encoded, d.decoded = append(d.encoded[:0], encoded...), d.request.GetStart().GetRequest()
	}
	return nil
}

// The numbers of fields.
const (
	fieldStart   = 2 // of SubscribeRequest
	fieldWatchID = 1 // of its Start
	fieldRequest = 2
)

// splitStart returns the id and the encoded WatchRequest of a start. It returns false for any other
// request, and for a start that is not encoded in the usual order.
func splitStart(b []byte) (id uint64, request []byte, ok bool) {
	start, rest, ok := cutBytes(b, fieldStart)
	if !ok || len(rest) > 0 {
		return 0, nil, false
	}
	if number, kind, n := protowire.ConsumeTag(start); n > 0 && number == fieldWatchID && kind == protowire.VarintType {
		size := 0
		if id, size = protowire.ConsumeVarint(start[n:]); size < 0 {
			return 0, nil, false
		}
		start = start[n+size:]
	}
	request, rest, ok = cutBytes(start, fieldRequest)
	return id, request, ok && len(request) > 0 && len(rest) == 0
}

// cutBytes returns the content of the field with which a message begins, and what follows it. It
// returns false if the message does not begin with this field.
func cutBytes(b []byte, field protowire.Number) (content, rest []byte, ok bool) {
	number, kind, n := protowire.ConsumeTag(b)
	if n < 0 || number != field || kind != protowire.BytesType {
		return nil, nil, false
	}
	content, size := protowire.ConsumeBytes(b[n:])
	if size < 0 {
		return nil, nil, false
	}
	return content, b[n+size:], true
}
