package wire

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/fanoutd/fanoutd/internal/object"
)

// AddedEvent returns the ADDED event of o as an element of WatchResponse.events. The bytes
// are shared and must not be modified.
func AddedEvent(o *object.Object, p object.Projection) []byte {
	if p.OmitValues {
		return AppendEvent(nil, object.Event{Type: object.Added, Revision: o.ModRevision, Key: o.Key, Object: o}, p)
	}
	return o.Encoded
}

// AppendEvent appends the event, with the given projection, to b as an element of
// WatchResponse.events.
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

// body is an encoded object in pieces. The mod revision is separate because a DELETED event
// replaces it.
type body struct {
	key, rest []byte // rest: all other fields before the mod revision
	revision  object.Revision
}

// contentOf returns the body of an object with the given mod revision.
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

// keyAlone returns the body of a deleted object if only its key is known.
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

// Encoder provides the functions of this package as methods, for packages that do not
// import it.
type Encoder struct{}

// AppendEvent is [AppendEvent].
func (Encoder) AppendEvent(b []byte, e object.Event, p object.Projection) []byte {
	return AppendEvent(b, e, p)
}

// AddedEvent is [AddedEvent].
func (Encoder) AddedEvent(o *object.Object, p object.Projection) []byte { return AddedEvent(o, p) }
