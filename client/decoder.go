package client

import (
	"encoding/json"
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

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
