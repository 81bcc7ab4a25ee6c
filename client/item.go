package client

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// Item is an object with its value decoded. Items are shared by all who ask for
// them and must not be changed.
type Item[T any] struct {
	// Value is what the decoder made of Object.
	Value T
	// Object is the object as it was received.
	Object *Object
	// Invalid says that there is a newer version of the object, and why it could not
	// be decoded. Value and Object are the last ones that could, maybe from before a
	// new epoch. Normally nil.
	Invalid error
}

// entry is what an informer keeps of an object. It is not changed once it is made.
type entry[T any] struct {
	item    Item[T]
	good    bool       // there is an item: the object, or an older one, was decoded
	newest  *Object    // item.Object, unless it is invalid
	indexed [][]string // by index: the values under which the item is found
}

// unchanged reports whether two objects are the same to whoever looks at them.
func unchanged(a, b *Object) bool {
	return a.ModRevision == b.ModRevision && a.CreateRevision == b.CreateRevision && a.Version == b.Version &&
		a.ContentType == b.ContentType && a.Opaque == b.Opaque && bytes.Equal(a.Value, b.Value) && maps.Equal(a.Labels, b.Labels)
}

// Decoder makes a value of an object. It is not asked about objects that the server
// could not decrypt, which are invalid. It must not change the object, which stays in
// use, nor keep its bytes where the value may be changed later.
type Decoder[T any] func(*Object) (T, error)

// errUndecryptable is why an object is invalid that the server could not decrypt.
var errUndecryptable = errors.New("the server cannot decrypt the value")

// of makes a value of any object.
func (d Decoder[T]) of(o *Object) (T, error) {
	if o.Undecryptable() {
		var none T
		return none, errUndecryptable
	}
	return d(o)
}

// JSONDecoder decodes JSON documents, with the rules of encoding/json.
func JSONDecoder[T any]() Decoder[T] {
	return func(o *Object) (v T, err error) {
		if err := json.Unmarshal(o.Value, &v); err != nil {
			return v, fmt.Errorf("decode JSON: %w", err)
		}
		return v, nil
	}
}

// ProtoDecoder decodes messages of the type T, which is a pointer to a generated
// struct: in their JSON form if that is the content type of the object, else in
// their binary form.
func ProtoDecoder[T proto.Message]() Decoder[T] {
	return func(o *Object) (T, error) {
		var none T
		m, ok := none.ProtoReflect().New().Interface().(T)
		if !ok {
			return none, fmt.Errorf("decode protobuf: %T is not a generated message", none)
		}
		unmarshal := proto.Unmarshal
		if o.ContentType == "application/json" {
			unmarshal = protojson.Unmarshal
		}
		if err := unmarshal(o.Value, m); err != nil {
			return none, fmt.Errorf("decode protobuf: %w", err)
		}
		return m, nil
	}
}

// ObjectDecoder leaves objects as they are.
func ObjectDecoder() Decoder[*Object] {
	return func(o *Object) (*Object, error) { return o, nil }
}
