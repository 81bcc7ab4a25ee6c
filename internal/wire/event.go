package wire

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/fanoutd/fanoutd/internal/object"
)

// Encoder encodes events. It has no state; a test can put another one in its place.
type Encoder struct{}

// AddedEvent returns the ADDED event of o as an element of WatchResponse.events. The bytes
// may be shared and must not be modified.
func (c Encoder) AddedEvent(o *object.Object, p object.Projection) []byte {
	if p.OmitValues {
		return c.AppendEvent(nil, object.Event{Type: object.Added, Revision: o.ModRevision, Key: o.Key, Object: o}, p)
	}
	return InForm(o, p).Encoded()
}

// AppendEvent appends the event, with the given projection, to b as an element of
// WatchResponse.events.
func (Encoder) AppendEvent(b []byte, e object.Event, p object.Projection) []byte {
	hasPrevious := p.Previous && e.Previous != nil
	e.Object = InForm(e.Object, p)
	if hasPrevious {
		e.Previous = InForm(e.Previous, p)
	}
	if e.Type != object.Deleted && !hasPrevious && !p.OmitValues {
		b = append(b, e.Object.Encoded()...)
		b[len(b)-1] = byte(e.Type)
		return b
	}
	now, revision := keyAlone(e.Key), e.Revision
	if e.Object != nil {
		now = contentOf(e.Object, p)
	}
	if e.Type != object.Deleted {
		revision = e.Object.ModRevision
	}
	size := now.sizeAsField() + sizeEventRevision(revision) + sizeEventType
	var before body
	if hasPrevious {
		before = contentOf(e.Previous, p)
		size += before.sizeAsField()
	}
	b = appendMessageHead(b, elementField, size)
	b = now.append(b, elementField)
	b = appendNumber(b, eventRevision, uint64(revision))
	b = appendNumber(b, eventType, uint64(e.Type))
	if hasPrevious {
		b = before.append(b, eventPrevious)
	}
	return b
}

// body is an encoded object in two pieces. Between them, the value may be left out.
type body struct{ key, rest []byte }

// contentOf returns the body of an object.
func contentOf(o *object.Object, p object.Projection) body {
	content := bodyOf(o)
	key := sizeText(objectKey, len(o.Key))
	rest := content[key:]
	if p.OmitValues && !o.Undecryptable() {
		number, wireType, tag := protowire.ConsumeTag(rest)
		rest = rest[tag+protowire.ConsumeFieldValue(number, wireType, rest[tag:]):]
	}
	return body{content[:key], rest}
}

// ObjectFieldWithoutValue returns o without its value as an element of ListResponse.objects.
func ObjectFieldWithoutValue(o *object.Object) []byte {
	content := contentOf(o, object.Projection{OmitValues: true})
	return content.append(make([]byte, 0, content.sizeAsField()), elementField)
}

// keyAlone returns the body of a deleted object if only its key is known.
func keyAlone(key object.Key) body {
	b := protowire.AppendTag(nil, objectKey, protowire.BytesType)
	return body{key: protowire.AppendString(b, string(key))}
}

func (c body) size() int { return len(c.key) + len(c.rest) }

// sizeAsField returns the size of the body as a field of an event. Both fields that hold
// an object have tags of the same size.
func (c body) sizeAsField() int {
	return sizeText(elementField, c.size())
}

func (c body) append(b []byte, field protowire.Number) []byte {
	b = appendMessageHead(b, field, c.size())
	b = append(b, c.key...)
	return append(b, c.rest...)
}
