package wire

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/fanoutd/fanoutd/internal/object"
)

// AddedEvent returns the element of WatchResponse.events that says that o was
// added. The bytes are shared and must not be modified.
func AddedEvent(o *object.Object, p object.Projection) []byte {
	if p.OmitValues {
		return AppendEvent(nil, object.Event{Type: object.Added, Revision: o.ModRevision, Key: o.Key, Object: o}, p)
	}
	return o.Encoded
}

// AppendEvent appends to b the element of WatchResponse.events that is the event
// in the view.
func AppendEvent(b []byte, e object.Event, p object.Projection) []byte {
	hasPrevious := p.Previous && e.Previous != nil
	if e.Type != object.Deleted && !hasPrevious && !p.OmitValues {
		b = append(b, e.Object.Encoded...)
		b[len(b)-1] = byte(e.Type)
		return b
	}
	var now, before body
	switch {
	case e.Object == nil:
		now = keyAlone(e.Key, e.Revision)
	case e.Type == object.Deleted:
		now = contentOf(e.Object, e.Revision, p)
	default:
		now = contentOf(e.Object, e.Object.ModRevision, p)
	}
	size := protowire.SizeTag(elementField) + protowire.SizeBytes(now.size()) + sizeEventType
	if hasPrevious {
		before = contentOf(e.Previous, e.Previous.ModRevision, p)
		size += protowire.SizeTag(eventPrevious) + protowire.SizeBytes(before.size())
	}
	b = appendMessageHead(b, elementField, size)
	b = now.append(b, elementField)
	b = appendEventType(b, e.Type)
	if hasPrevious {
		b = before.append(b, eventPrevious)
	}
	return b
}

// body is an encoded object in pieces: the key, perhaps the value, the rest, and
// the mod revision, which a deletion has of its own.
type body struct {
	key, rest []byte
	revision  object.Revision
}

// contentOf returns the body of an object at a revision.
func contentOf(o *object.Object, at object.Revision, p object.Projection) body {
	field := ObjectField(o)
	_, head := protowire.ConsumeVarint(field[1:])
	content := field[1+head : len(field)-sizeModRevision(o.ModRevision)]
	key := protowire.SizeTag(objectKey) + protowire.SizeBytes(len(o.Key))
	rest := key
	if p.OmitValues {
		rest += sizeValue(o)
	}
	return body{content[:key], content[rest:], at}
}

// keyAlone returns the body of an object of which only the key is known.
func keyAlone(key object.Key, at object.Revision) body {
	b := protowire.AppendTag(nil, objectKey, protowire.BytesType)
	return body{protowire.AppendString(b, string(key)), nil, at}
}

func (c body) size() int { return len(c.key) + len(c.rest) + sizeModRevision(c.revision) }

func (c body) append(b []byte, field protowire.Number) []byte {
	b = appendMessageHead(b, field, c.size())
	b = append(b, c.key...)
	b = append(b, c.rest...)
	return appendModRevision(b, c.revision)
}

// Encoder offers the functions of the package to those who are given an encoder
// instead of importing one.
type Encoder struct{}

// AppendEvent is [AppendEvent].
func (Encoder) AppendEvent(b []byte, e object.Event, p object.Projection) []byte {
	return AppendEvent(b, e, p)
}

// AddedEvent is [AddedEvent].
func (Encoder) AddedEvent(o *object.Object, p object.Projection) []byte { return AddedEvent(o, p) }
