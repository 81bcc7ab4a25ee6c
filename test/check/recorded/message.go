// Package recorded converts the messages of the protocol to those of package check.
package recorded

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/check"
)

// eventsField is the number of the field with the events in a response.
const eventsField = 1

// Message converts a response. It returns an error if a value is sent as text although its
// content type says bytes, or the other way around.
func Message(r *fanoutv1.WatchResponse) (check.Message, error) {
	m := check.Message{Header: object.Header{
		Kind:     object.MessageKind(r.GetKind()),
		CatchUp:  object.CatchUpKind(r.GetCatchUp()),
		Position: Position(r.GetPosition()),
		Partial:  r.GetPartial(),

		ResumeAtOnce: r.GetResumeAtOnce(),
	}}
	for _, e := range r.GetEvents() {
		m.Bytes += protowire.SizeTag(eventsField) + protowire.SizeBytes(proto.Size(e))
		o, err := Object(e.GetObject())
		if err != nil {
			return check.Message{}, err
		}
		event := check.Event{Type: object.EventType(e.GetType()), Revision: object.Revision(e.GetRevision()), Object: o}
		if p := e.GetPrevious(); p != nil {
			previous, err := Object(p)
			if err != nil {
				return check.Message{}, err
			}
			event.Previous = &previous
		}
		m.Events = append(m.Events, event)
	}
	return m, nil
}

// Position converts a position.
func Position(p *fanoutv1.Position) object.Position {
	return object.Position{Epoch: object.Epoch(p.GetEpoch()), Revision: object.Revision(p.GetRevision())}
}

// Object converts an object. Its value is nil if the object has none, not even an empty
// one. Errors are those of [Message].
func Object(o *fanoutv1.Object) (object.Decoded, error) {
	out := object.Decoded{
		Key:            object.Key(o.GetKey()),
		ContentType:    o.GetContentType(),
		Labels:         o.GetLabels(),
		Opaque:         o.GetOpaque(),
		CreateRevision: object.Revision(o.GetCreateRevision()),
		ModRevision:    object.Revision(o.GetModRevision()),
		Version:        o.GetVersion(),
	}
	text := false
	switch v := o.GetValue().(type) {
	case *fanoutv1.Object_Text:
		out.Value, text = []byte(v.Text), true
	case *fanoutv1.Object_Data:
		out.Value = append([]byte{}, v.Data...)
	default:
		return out, nil
	}
	if want := object.IsText(out.ContentType, out.Value); text != want {
		return out, fmt.Errorf("object %q of type %q comes as text: %v, should: %v", o.GetKey(), out.ContentType, text, want)
	}
	return out, nil
}
