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

// Preencode encodes an object, with a copy of its key and its value. The record can be freed.
func Preencode(d object.Decoded) *object.Object {
	body := sizeObject(&d)
	field := sizeText(elementField, body)
	event := field + sizeEventRevision(d.ModRevision) + sizeEventType

	b := make([]byte, 0, sizeText(elementField, event))
	b = appendMessageHead(b, elementField, event)
	b = appendMessageHead(b, elementField, body)
	b = appendText(b, objectKey, string(d.Key))
	keyAt := len(b) - len(d.Key)
	if !d.Undecryptable {
		b = protowire.AppendTag(b, valueField(&d), protowire.BytesType)
		b = protowire.AppendBytes(b, d.Value)
	}
	if d.ContentType != "" {
		b = appendText(b, objectContentType, d.ContentType)
	}
	if len(d.Labels) > 0 { // sorting nothing would allocate
		for _, name := range slices.Sorted(maps.Keys(d.Labels)) {
			b = appendMessageHead(b, objectLabels, sizeLabel(name, d.Labels[name]))
			b = appendText(b, 1, name)
			b = appendText(b, 2, d.Labels[name])
		}
	}
	if d.Opaque {
		b = appendNumber(b, objectOpaque, 1)
	}
	b = appendNumber(b, objectCreateRevision, uint64(d.CreateRevision))
	b = appendNumber(b, objectVersion, uint64(d.Version))
	b = appendNumber(b, objectModRevision, uint64(d.ModRevision))
	if d.Lease != 0 {
		b = appendNumber(b, objectHasTTL, 1)
	}
	b = appendNumber(b, eventRevision, uint64(d.ModRevision))
	b = appendNumber(b, eventType, uint64(object.Added))
	return object.New(d, b, keyAt)
}

// Decode returns what an object was encoded from. Its value shares the memory of the object.
func Decode(o *object.Object) object.Decoded {
	d := object.Decoded{
		Key: o.Key, ModRevision: o.ModRevision, Labels: o.Labels(), Fields: o.Fields(), Lease: o.Lease(),
		Opaque: o.Opaque(), Undecryptable: o.Undecryptable(),
	}
	for b := bodyOf(o); len(b) > 0; {
		number, wireType, tag := protowire.ConsumeTag(b)
		end := tag + protowire.ConsumeFieldValue(number, wireType, b[tag:])
		switch number {
		case objectText, objectData:
			d.Value, _ = protowire.ConsumeBytes(b[tag:end:end])
		case objectContentType:
			d.ContentType, _ = protowire.ConsumeString(b[tag:])
		case objectCreateRevision:
			n, _ := protowire.ConsumeVarint(b[tag:])
			d.CreateRevision = object.Revision(n)
		case objectVersion:
			n, _ := protowire.ConsumeVarint(b[tag:])
			d.Version = int64(n)
		}
		b = b[end:]
	}
	return d
}

// ObjectField returns o as an element of ListResponse.objects, which is also
// GetResponse.object. The bytes are shared and must not be modified.
func ObjectField(o *object.Object) []byte {
	encoded := o.Encoded()
	_, head := protowire.ConsumeVarint(encoded[1:])
	return encoded[1+head : len(encoded)-sizeEventRevision(o.ModRevision)-sizeEventType]
}

// bodyOf returns o as a message of its own.
func bodyOf(o *object.Object) []byte {
	body, _ := protowire.ConsumeBytes(ObjectField(o)[1:])
	return body
}

func valueField(d *object.Decoded) protowire.Number {
	if object.IsText(d.ContentType, d.Value) {
		return objectText
	}
	return objectData
}

func sizeObject(d *object.Decoded) int {
	n := sizeText(objectKey, len(d.Key))
	n += sizeValue(d)
	if d.ContentType != "" {
		n += sizeText(objectContentType, len(d.ContentType))
	}
	for name, value := range d.Labels {
		n += sizeText(objectLabels, sizeLabel(name, value))
	}
	if d.Opaque {
		n += sizeNumber(objectOpaque, 1)
	}
	n += sizeNumber(objectCreateRevision, uint64(d.CreateRevision))
	n += sizeNumber(objectVersion, uint64(d.Version))
	n += sizeNumber(objectModRevision, uint64(d.ModRevision))
	if d.Lease != 0 {
		n += sizeNumber(objectHasTTL, 1)
	}
	return n
}

// sizeValue returns the size of the value field. An undecryptable object has no value
// field.
func sizeValue(d *object.Decoded) int {
	if d.Undecryptable {
		return 0
	}
	return sizeText(objectText, len(d.Value))
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
