package client

import (
	"encoding/json"
	"fmt"
	"mime"
	"strings"
	"unicode/utf8"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// Object is one entry of a resource as it stands at its ModRevision. Whoever
// receives it may share it with others and must not change it.
type Object struct {
	// Key is the slash-separated path of the object inside of its resource.
	Key string
	// Value is what is stored; nil where a watch omits values, where a deletion is told
	// by the key alone, and where the server cannot decrypt it.
	Value []byte
	// ContentType is the media type of the value.
	ContentType string
	// Labels are those of the object; nil if it has none.
	Labels map[string]string
	// Opaque says that the value is not what the codec of the resource expects. It
	// is as it is stored, and without labels. Or there is none, see [Object.Undecryptable].
	Opaque bool
	// CreateRevision is the revision at which the key came to exist.
	CreateRevision int64
	// ModRevision is the revision of the last write; in a [Deleted] event that at
	// which the object left.
	ModRevision int64
	// Version is the number of writes since the key came to exist; 1 for a new key.
	Version int64
}

// Undecryptable reports whether the server could not decrypt the value. What it is
// nobody knows; it is not empty. It may be known to another server, or later.
func (o *Object) Undecryptable() bool { return o.Opaque && o.Value == nil && o.ContentType == "" }

// Position is a point in the history of a resource: it is the same on all servers
// over one etcd. The zero position is that of somebody who knows nothing.
type Position struct {
	// Epoch is the identity of the revision space: revisions of different epochs
	// cannot be compared. Opaque.
	Epoch string `json:"epoch"`
	// Revision says that every change up to this one is behind the position.
	Revision int64 `json:"revision"`
}

// Value is what can be stored as an object.
type Value struct {
	// Data is the value itself.
	Data []byte
	// ContentType is its media type. Empty leaves the choice to the server, which
	// takes the one that the resource has, or a general one.
	ContentType string
	// Labels are stored with the object; only resources with codec "object" have
	// them.
	Labels map[string]string

	text bool  // Data is a text, whatever its type
	err  error // why there is no value
}

// JSON returns v as a JSON document. If v cannot be encoded, the write fails.
func JSON(v any) Value {
	data, err := json.Marshal(v)
	if err != nil {
		err = fmt.Errorf("encode the value: %w", err)
	}
	return Value{Data: data, ContentType: "application/json", err: err}
}

// Text returns a value that is a text.
func Text(s string) Value { return Value{Data: []byte(s), text: true} }

// Bytes returns a value that is any bytes.
func Bytes(b []byte) Value { return Value{Data: b} }

// WithLabels returns the value with these labels in place of those it had.
func (v Value) WithLabels(labels map[string]string) Value {
	v.Labels = labels
	return v
}

// WithContentType returns the value with this media type.
func (v Value) WithContentType(mediaType string) Value {
	v.ContentType = mediaType
	return v
}

// isText reports whether the value travels as a text, which is for those who look
// at the protocol in JSON.
func (v Value) isText() bool {
	return (v.text || isTextual(v.ContentType)) && utf8.Valid(v.Data)
}

// isTextual reports whether a media type is one of texts.
func isTextual(mediaType string) bool {
	mediaType, _, err := mime.ParseMediaType(mediaType)
	if err != nil {
		return false
	}
	return strings.HasPrefix(mediaType, "text/") || mediaType == "application/json" || mediaType == "application/yaml" ||
		strings.HasSuffix(mediaType, "+json") || strings.HasSuffix(mediaType, "+yaml")
}

// AsValue returns what is to be written for the object to be as it is.
func (o *Object) AsValue() Value {
	return Value{Data: o.Value, ContentType: o.ContentType, Labels: o.Labels}
}

func objectOf(o *fanoutv1.Object) *Object {
	if o == nil {
		return nil
	}
	object := &Object{
		Key: o.GetKey(), ContentType: o.GetContentType(), Labels: o.GetLabels(), Opaque: o.GetOpaque(),
		CreateRevision: o.GetCreateRevision(), ModRevision: o.GetModRevision(), Version: o.GetVersion(),
	}
	switch value := o.GetValue().(type) {
	case *fanoutv1.Object_Text:
		object.Value = []byte(value.Text)
	case *fanoutv1.Object_Data:
		object.Value = value.Data
		if object.Value == nil {
			object.Value = []byte{}
		}
	}
	return object
}

func positionOf(p *fanoutv1.Position) Position {
	return Position{Epoch: p.GetEpoch(), Revision: p.GetRevision()}
}
