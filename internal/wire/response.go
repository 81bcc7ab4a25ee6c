package wire

import (
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/fanoutd/fanoutd/internal/object"
)

// Field numbers of fanout.v1.WatchResponse, ListResponse, GetResponse and
// Position.
const (
	responsePosition protowire.Number = 2 // in all three responses
	watchKind        protowire.Number = 3
	watchCatchUp     protowire.Number = 4
	watchPartial     protowire.Number = 5
	watchResume      protowire.Number = 6
	watchAge         protowire.Number = 7
	listNextPage     protowire.Number = 3
	listRemaining    protowire.Number = 4
	getTTL           protowire.Number = 3
	durationSeconds  protowire.Number = 1 // of google.protobuf.Duration
	durationNanos    protowire.Number = 2
	positionEpoch    protowire.Number = 1
	positionRevision protowire.Number = 2
)

// AppendHeader appends all fields of a WatchResponse except the events. Encoded events
// before or after it complete the message.
func AppendHeader(b []byte, h object.Header) []byte {
	b = AppendPosition(b, h.Position)
	b = appendNumber(b, watchKind, uint64(h.Kind))
	if h.CatchUp != object.NoCatchUp {
		b = appendNumber(b, watchCatchUp, uint64(h.CatchUp))
	}
	if h.Partial {
		b = appendNumber(b, watchPartial, 1)
	}
	if h.ResumeAtOnce {
		b = appendNumber(b, watchResume, 1)
	}
	if h.Age > 0 {
		b = appendDuration(b, watchAge, h.Age)
	}
	return b
}

// AppendPosition appends the position field of a WatchResponse, ListResponse or
// GetResponse. An ObjectField followed by a position is a complete GetResponse.
func AppendPosition(b []byte, p object.Position) []byte {
	size := sizeText(positionEpoch, len(p.Epoch)) + sizeNumber(positionRevision, uint64(p.Revision))
	b = appendMessageHead(b, responsePosition, size)
	b = appendText(b, positionEpoch, string(p.Epoch))
	return appendNumber(b, positionRevision, uint64(p.Revision))
}

// AppendListEnd appends all fields of a ListResponse except the objects. ObjectFields
// before it complete the message. It omits a negative remaining count.
func AppendListEnd(b []byte, p object.Position, nextPageToken string, remaining int) []byte {
	b = AppendPosition(b, p)
	if nextPageToken != "" {
		b = appendText(b, listNextPage, nextPageToken)
	}
	if remaining >= 0 {
		b = appendNumber(b, listRemaining, uint64(remaining))
	}
	return b
}

// AppendTTL appends the remaining time to live, in whole seconds, to a GetResponse.
func AppendTTL(b []byte, left time.Duration) []byte {
	return appendDuration(b, getTTL, left.Truncate(time.Second))
}

// appendDuration appends a field with a duration that is not negative.
func appendDuration(b []byte, field protowire.Number, d time.Duration) []byte {
	var body []byte
	if seconds := uint64(d / time.Second); seconds > 0 {
		body = appendNumber(body, durationSeconds, seconds)
	}
	if nanos := uint64(d % time.Second); nanos > 0 {
		body = appendNumber(body, durationNanos, nanos)
	}
	b = protowire.AppendTag(b, field, protowire.BytesType)
	return protowire.AppendBytes(b, body)
}
