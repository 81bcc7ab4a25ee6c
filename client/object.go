package client

import (
	"encoding/json"
	"fmt"
	"mime"
	"strings"
	"time"
	"unicode/utf8"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// Object is one object of a resource as it was at its ModRevision. Objects are shared
// between watches, informers and their callers, and must not be changed.
type Object struct {
	// Key is the slash-separated path of the object within its resource.
	Key string
	// Value is the stored value. It is nil if the value is unknown: the watch omits
	// values, a deletion names only the key, or the server cannot decrypt the value.
	// An empty value is not nil.
	Value []byte
	// ContentType is the media type of the value.
	ContentType string
	// Labels are the labels of the object; nil if it has none.
	Labels map[string]string
	// Opaque says that the codec of the resource could not decode the stored bytes.
	// Value then holds them as they are, and there are no labels; or it is nil, see
	// [Object.Undecryptable].
	Opaque bool
	// CreateRevision is the revision at which the key was created.
	CreateRevision int64
	// ModRevision is the revision of the last write.
	ModRevision int64
	// Version is the number of writes since the key was created; 1 for a new key.
	Version int64
	// HasTTL says that the object has a time to live: it is removed some time after its
	// last write.
	HasTTL bool
	// TTL is what is left of the time to live. Only [Resource.Get] sets it; 0 also means
	// that it is not known.
	TTL time.Duration
	// LastChange is the write that stored the object. Only [Resource.Get] with the option [LastChange]
	// sets it; nil also means that the history does not have it.
	LastChange *Change
}

func (o *Object) key() string     { return o.Key }
func (o *Object) revision() int64 { return o.ModRevision }

// Undecryptable reports whether the server could not decrypt the value. The value is
// unknown then, not empty. Another server, or this one later, may know it.
func (o *Object) Undecryptable() bool { return o.Opaque && o.Value == nil && o.ContentType == "" }

// AsValue returns the value, content type and labels of the object, to write them
// again. If the value of the object is unknown (nil), the write fails with
// [ErrUnknownValue] unless Data is set first.
func (o *Object) AsValue() Value {
	return Value{Data: o.Value, ContentType: o.ContentType, Labels: o.Labels, unknown: o.Value == nil}
}

// Position is a point in the history of a resource. It means the same at all servers
// over one etcd. The zero position is before everything.
type Position struct {
	// Epoch identifies the revision space: revisions of different epochs cannot be
	// compared. It is opaque.
	Epoch string `json:"epoch"`
	// Revision is the last revision before the position: every change up to and
	// including this revision is in the past.
	Revision int64 `json:"revision"`
}

// Value is what a write stores as an object.
type Value struct {
	// Data is the value itself.
	Data []byte
	// ContentType is the media type of Data. If it is empty, the server chooses: the
	// fixed type of the resource, or a general one.
	ContentType string
	// Labels are stored with the object. Only resources with codec "object" have
	// labels.
	Labels map[string]string

	typed   bool  // ContentType is meant, also if it is empty
	labeled bool  // Labels are meant, also if they are nil
	text    bool  // Data is text, whatever ContentType says
	unknown bool  // the value comes from an object whose value is unknown
	err     error // why there is no value
}

// JSON returns v encoded as JSON. If v cannot be encoded, the write fails.
func JSON(v any) Value {
	data, err := json.Marshal(v)
	if err != nil {
		err = fmt.Errorf("encode the value: %w", err)
	}
	return Value{Data: data, ContentType: "application/json", err: err}
}

// Text returns s as a value.
func Text(s string) Value { return Value{Data: []byte(s), text: true} }

// Bytes returns b as a value.
func Bytes(b []byte) Value { return Value{Data: b} }

// WithLabels returns the value with these labels instead of its own. With nil, [Resource.Update]
// removes the labels of the object instead of keeping them.
func (v Value) WithLabels(labels map[string]string) Value {
	v.Labels, v.labeled = labels, true
	return v
}

// WithContentType returns the value with this media type. If it is empty, the server chooses, also in
// [Resource.Update].
func (v Value) WithContentType(mediaType string) Value {
	v.ContentType, v.typed = mediaType, true
	return v
}

// keeping returns the value with the labels and the media type of the object that it replaces, unless it
// has its own.
func (v Value) keeping(old *Object, shownAsJSON bool) Value {
	if old == nil {
		return v
	}
	if v.Labels == nil && !v.labeled {
		v.Labels = old.Labels
	}
	// The type of a value that is shown as JSON, or opaque, is not the stored one.
	if v.ContentType == "" && !v.typed && !shownAsJSON && !old.Opaque {
		v.ContentType = old.ContentType
	}
	return v
}

// check returns why the value cannot be written, or nil.
func (v Value) check() error {
	if v.unknown && v.Data == nil {
		return ErrUnknownValue
	}
	return v.err
}

// isText reports whether the value is sent as text, which is readable in JSON views
// of the protocol.
func (v Value) isText() bool {
	return (v.text || isTextual(v.ContentType)) && utf8.Valid(v.Data)
}

// isTextual reports whether a media type stands for text.
func isTextual(mediaType string) bool {
	mediaType, _, err := mime.ParseMediaType(mediaType)
	if err != nil {
		return false
	}
	return strings.HasPrefix(mediaType, "text/") || mediaType == "application/json" || mediaType == "application/yaml" ||
		strings.HasSuffix(mediaType, "+json") || strings.HasSuffix(mediaType, "+yaml")
}

func objectOf(o *fanoutv1.Object) *Object {
	if o == nil {
		return nil
	}
	object := &Object{
		Key: o.GetKey(), ContentType: o.GetContentType(), Labels: o.GetLabels(), Opaque: o.GetOpaque(),
		CreateRevision: o.GetCreateRevision(), ModRevision: o.GetModRevision(), Version: o.GetVersion(), HasTTL: o.GetHasTtl(),
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
