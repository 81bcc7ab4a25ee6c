package object

import (
	"bytes"
	"encoding/json"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protopath"
	"google.golang.org/protobuf/reflect/protorange"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// maxJSONForm limits the JSON form of a value, which may be many times as large as the binary
// one. An event with two of them stays below the 4 MiB that clients accept by default.
const maxJSONForm = 3 << 19

// JSONForm returns the type of the messages that a codec stores, or nil if its values have
// only one form.
func JSONForm(c Codec) *MessageType {
	if c, ok := c.(protobufCodec); ok {
		return c.message
	}
	return nil
}

// InJSON returns an object with its value in the JSON form of the type. It
// returns false if the value has to stay as it is: it is opaque or too large, or the JSON form
// would lose a part of it, such as a field that the type does not have.
func (t *MessageType) InJSON(d Decoded) (Decoded, bool) {
	if d.Opaque {
		return d, false
	}
	m, err := t.unmarshal(d.Value)
	if err != nil || t.hasUnknownFields(m) {
		return d, false
	}
	text, err := (protojson.MarshalOptions{Resolver: t.types}).Marshal(m.Interface())
	if err != nil {
		return d, false
	}
	// The library adds random spaces.
	var compact bytes.Buffer
	if err := json.Compact(&compact, text); err != nil || compact.Len() > maxJSONForm {
		return d, false
	}
	d.Value, d.ContentType = compact.Bytes(), ContentJSON
	return d, true
}

// hasUnknownFields reports whether a message, or one inside of it, has fields that its type does
// not have.
func (t *MessageType) hasUnknownFields(m protoreflect.Message) bool {
	found := false
	_ = protorange.Options{Resolver: t.types}.Range(m, func(v protopath.Values) error {
		switch v.Path.Index(-1).Kind() {
		case protopath.UnknownAccessStep:
			found = true
		case protopath.AnyExpandStep:
			// The range goes on with the message inside, and skips the fields of the Any.
			found = len(v.Index(-2).Value.Message().GetUnknown()) > 0
		}
		if found {
			return protorange.Terminate
		}
		return nil
	}, nil)
	return found
}
