package client

import (
	"encoding/json"
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// Item is an object together with its decoded value. Items are shared between all
// readers of an informer and must not be changed.
type Item[T any] struct {
	// Value is the decoded value of Object.
	Value T
	// Object is the object as the client received it.
	Object *Object
	// Invalid is nil, or why a newer version of the object could not be decoded. Value
	// and Object are then those of the last version that was decoded, which may be of
	// an older epoch.
	Invalid error
}

// Decoder decodes the value of an object. It is not called for objects that the server
// could not decrypt; those are invalid. It must not change the object. If the caller
// may change the result, the result must not share memory with the object.
type Decoder[T any] func(*Object) (T, error)

// errUndecryptable is why an object that the server cannot decrypt is invalid.
var errUndecryptable = errors.New("the server cannot decrypt the value")

// decode decodes the value of any object.
func (d Decoder[T]) decode(o *Object) (T, error) {
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

// ProtoDecoder decodes protobuf messages. T is a pointer to a generated struct. Objects
// with content type application/json are decoded from JSON, all others from the binary
// form.
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

// ObjectDecoder returns objects as they are.
func ObjectDecoder() Decoder[*Object] {
	return func(o *Object) (*Object, error) { return o, nil }
}
