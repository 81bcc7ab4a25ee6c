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
	field := protowire.SizeTag(elementField) + protowire.SizeBytes(body)
	event := field + sizeEventRevision(o.ModRevision) + sizeEventType

	b := make([]byte, 0, protowire.SizeTag(elementField)+protowire.SizeBytes(event))
	b = appendMessageHead(b, elementField, event)
	b = appendMessageHead(b, elementField, body)
	b = protowire.AppendTag(b, objectKey, protowire.BytesType)
	b = protowire.AppendString(b, string(o.Key))
	if !o.Undecryptable {
		b = protowire.AppendTag(b, valueField(o), protowire.BytesType)
		b = protowire.AppendBytes(b, o.Value)
		o.Value = b[len(b)-len(o.Value) : len(b) : len(b)]
	}
	if o.ContentType != "" {
		b = protowire.AppendTag(b, objectContentType, protowire.BytesType)
		b = protowire.AppendString(b, o.ContentType)
	}
	for _, name := range slices.Sorted(maps.Keys(o.Labels)) {
		b = appendMessageHead(b, objectLabels, sizeLabel(name, o.Labels[name]))
		b = protowire.AppendTag(b, 1, protowire.BytesType)
		b = protowire.AppendString(b, name)
		b = protowire.AppendTag(b, 2, protowire.BytesType)
		b = protowire.AppendString(b, o.Labels[name])
	}
	if o.Opaque {
		b = protowire.AppendTag(b, objectOpaque, protowire.VarintType)
		b = protowire.AppendVarint(b, 1)
	}
	b = protowire.AppendTag(b, objectCreateRevision, protowire.VarintType)
	b = protowire.AppendVarint(b, uint64(o.CreateRevision))
	b = protowire.AppendTag(b, objectVersion, protowire.VarintType)
	b = protowire.AppendVarint(b, uint64(o.Version))
	b = protowire.AppendTag(b, objectModRevision, protowire.VarintType)
	b = protowire.AppendVarint(b, uint64(o.ModRevision))
	if o.Lease != 0 {
		b = protowire.AppendTag(b, objectHasTTL, protowire.VarintType)
		b = protowire.AppendVarint(b, 1)
	}
	b = appendEventRevision(b, o.ModRevision)
	b = appendEventType(b, object.Added)
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
	n := protowire.SizeTag(objectKey) + protowire.SizeBytes(len(o.Key))
	n += sizeValue(o)
	if o.ContentType != "" {
		n += protowire.SizeTag(objectContentType) + protowire.SizeBytes(len(o.ContentType))
	}
	for name, value := range o.Labels {
		n += protowire.SizeTag(objectLabels) + protowire.SizeBytes(sizeLabel(name, value))
	}
	if o.Opaque {
		n += protowire.SizeTag(objectOpaque) + protowire.SizeVarint(1)
	}
	n += protowire.SizeTag(objectCreateRevision) + protowire.SizeVarint(uint64(o.CreateRevision))
	n += protowire.SizeTag(objectVersion) + protowire.SizeVarint(uint64(o.Version))
	n += protowire.SizeTag(objectModRevision) + protowire.SizeVarint(uint64(o.ModRevision))
	if o.Lease != 0 {
		n += protowire.SizeTag(objectHasTTL) + protowire.SizeVarint(1)
	}
	return n
}

// sizeValue returns the size of the value field. An undecryptable object has no value
// field.
func sizeValue(o *object.Object) int {
	if o.Undecryptable {
		return 0
	}
	return protowire.SizeTag(objectText) + protowire.SizeBytes(len(o.Value))
}

func sizeLabel(name, value string) int {
	return protowire.SizeTag(1) + protowire.SizeBytes(len(name)) + protowire.SizeTag(2) + protowire.SizeBytes(len(value))
}

func sizeEventRevision(r object.Revision) int {
	return protowire.SizeTag(eventRevision) + protowire.SizeVarint(uint64(r))
}

func appendEventRevision(b []byte, r object.Revision) []byte {
	b = protowire.AppendTag(b, eventRevision, protowire.VarintType)
	return protowire.AppendVarint(b, uint64(r))
}

func appendEventType(b []byte, t object.EventType) []byte {
	b = protowire.AppendTag(b, eventType, protowire.VarintType)
	return protowire.AppendVarint(b, uint64(t))
}

// appendMessageHead appends the tag and the length of an embedded message. The caller
// appends the body, which has the given size.
func appendMessageHead(b []byte, field protowire.Number, size int) []byte {
	b = protowire.AppendTag(b, field, protowire.BytesType)
	return protowire.AppendVarint(b, uint64(size))
}
