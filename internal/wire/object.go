package wire

import (
	"maps"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/fanoutd/fanoutd/internal/object"
)

// Field numbers of fanout.v1.Object.
const (
	objectKey            protowire.Number = 1
	objectText           protowire.Number = 2
	objectData           protowire.Number = 3
	objectContentType    protowire.Number = 4
	objectLabels         protowire.Number = 5
	objectOpaque         protowire.Number = 6
	objectCreateRevision protowire.Number = 7
	objectVersion        protowire.Number = 8
	objectModRevision    protowire.Number = 9
	objectHasTTL         protowire.Number = 10
)

// Field numbers of the messages that contain objects and events.
const (
	elementField  protowire.Number = 1 // Event.object, ListResponse.objects, GetResponse.object, WatchResponse.events
	eventRevision protowire.Number = 2 // Event.revision
	eventType     protowire.Number = 3 // Event.type
	eventPrevious protowire.Number = 4 // Event.previous
)

// sizeEventType is the encoded size of Event.type: a tag and a number below 128.
const sizeEventType = 2

// Preencode sets o.Encoded, and makes o.Value a part of it. The value is then in memory
// only once, and the record can be freed. Preencode is the last step of building an object.
func Preencode(o *object.Object) {
	body := sizeObject(o)
	field := sizeText(elementField, body)
	event := field + sizeEventRevision(o.ModRevision) + sizeEventType

	b := make([]byte, 0, sizeText(elementField, event))
	b = appendMessageHead(b, elementField, event)
	b = appendMessageHead(b, elementField, body)
	b = appendText(b, objectKey, string(o.Key))
	if !o.Undecryptable {
		b = protowire.AppendTag(b, valueField(o), protowire.BytesType)
		b = protowire.AppendBytes(b, o.Value)
		o.Value = b[len(b)-len(o.Value) : len(b) : len(b)]
	}
	if o.ContentType != "" {
		b = appendText(b, objectContentType, o.ContentType)
	}
	for _, name := range slices.Sorted(maps.Keys(o.Labels)) {
		b = appendMessageHead(b, objectLabels, sizeLabel(name, o.Labels[name]))
		b = appendText(b, 1, name)
		b = appendText(b, 2, o.Labels[name])
	}
	if o.Opaque {
		b = appendNumber(b, objectOpaque, 1)
	}
	b = appendNumber(b, objectCreateRevision, uint64(o.CreateRevision))
	b = appendNumber(b, objectVersion, uint64(o.Version))
	b = appendNumber(b, objectModRevision, uint64(o.ModRevision))
	if o.Lease != 0 {
		b = appendNumber(b, objectHasTTL, 1)
	}
	b = appendNumber(b, eventRevision, uint64(o.ModRevision))
	b = appendNumber(b, eventType, uint64(object.Added))
	o.Encoded = b
}

// ObjectField returns o as an element of ListResponse.objects, which is also
// GetResponse.object. The bytes are shared and must not be modified.
func ObjectField(o *object.Object) []byte {
	_, head := protowire.ConsumeVarint(o.Encoded[1:])
	return o.Encoded[1+head : len(o.Encoded)-sizeEventRevision(o.ModRevision)-sizeEventType]
}

func valueField(o *object.Object) protowire.Number {
	if object.IsText(o.ContentType, o.Value) {
		return objectText
	}
	return objectData
}

func sizeObject(o *object.Object) int {
	n := sizeText(objectKey, len(o.Key))
	n += sizeValue(o)
	if o.ContentType != "" {
		n += sizeText(objectContentType, len(o.ContentType))
	}
	for name, value := range o.Labels {
		n += sizeText(objectLabels, sizeLabel(name, value))
	}
	if o.Opaque {
		n += sizeNumber(objectOpaque, 1)
	}
	n += sizeNumber(objectCreateRevision, uint64(o.CreateRevision))
	n += sizeNumber(objectVersion, uint64(o.Version))
	n += sizeNumber(objectModRevision, uint64(o.ModRevision))
	if o.Lease != 0 {
		n += sizeNumber(objectHasTTL, 1)
	}
	return n
}

// sizeValue returns the size of the value field. An undecryptable object has no value
// field.
func sizeValue(o *object.Object) int {
	if o.Undecryptable {
		return 0
	}
	return sizeText(objectText, len(o.Value))
}

func sizeLabel(name, value string) int {
	return sizeText(1, len(name)) + sizeText(2, len(value))
}

func sizeEventRevision(r object.Revision) int { return sizeNumber(eventRevision, uint64(r)) }

func appendNumber(b []byte, field protowire.Number, n uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), n)
}

func sizeNumber(field protowire.Number, n uint64) int {
	return protowire.SizeTag(field) + protowire.SizeVarint(n)
}

func appendText(b []byte, field protowire.Number, text string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), text)
}

// sizeText returns the size of a text, or of anything else with so many bytes, as a field.
func sizeText(field protowire.Number, bytes int) int {
	return protowire.SizeTag(field) + protowire.SizeBytes(bytes)
}

// appendMessageHead appends the tag and the length of an embedded message. The caller
// appends the body, which has the given size.
func appendMessageHead(b []byte, field protowire.Number, size int) []byte {
	b = protowire.AppendTag(b, field, protowire.BytesType)
	return protowire.AppendVarint(b, uint64(size))
}
