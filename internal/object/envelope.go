package object

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// envelopeMagic is the prefix of every value stored by the codec "object". Neither text
// nor a protobuf message starts with it, because no field has number 0.
var envelopeMagic = []byte{0x00, 'f', 'o', 0x01}

// Field numbers of fanout.storage.v1.Envelope.
const (
	envelopeContentType = 1
	envelopeLabels      = 2
	envelopeValue       = 3
)

// envelopeCodec stores envelopeMagic followed by a fanout.storage.v1.Envelope. The
// hand-written encoding avoids a copy of the value when decoding, and encodes equal
// content to equal bytes. The envelope contains the labels. Only JSON values have fields. A
// write of JSON must be well-formed; what is stored already may be anything.
type envelopeCodec struct{ schema Schema }

func (envelopeCodec) Name() string { return "object" }

func (envelopeCodec) ContentType(text bool) string {
	if text {
		return ContentText
	}
	return ContentBinary
}

func (codec envelopeCodec) Encode(c Content) ([]byte, *ContentError) {
	if !utf8.ValidString(c.ContentType) {
		return nil, &ContentError{Field: "content_type", Reason: "is not valid UTF-8"}
	}
	if err := CheckLabels("labels", c.Labels); err != nil {
		return nil, err
	}
	if IsJSON(c.ContentType) && !isDocument(c.Value) {
		return nil, &ContentError{Field: "value", Reason: fmt.Sprintf("has the content type %s, but is not JSON: %s", c.ContentType, documentFault(c.Value))}
	}
	if codec.hasFields(c) {
		if err := codec.schema.checkFields(c.Value); err != nil {
			return nil, err
		}
	}
	out := make([]byte, 0, len(envelopeMagic)+len(c.ContentType)+len(c.Value)+64*len(c.Labels)+16)
	out = append(out, envelopeMagic...)
	if c.ContentType != "" {
		out = protowire.AppendTag(out, envelopeContentType, protowire.BytesType)
		out = protowire.AppendString(out, c.ContentType)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Labels)) {
		value := c.Labels[name]
		entry := protowire.SizeTag(1) + protowire.SizeBytes(len(name)) + protowire.SizeTag(2) + protowire.SizeBytes(len(value))
		out = protowire.AppendTag(out, envelopeLabels, protowire.BytesType)
		out = protowire.AppendVarint(out, uint64(entry))
		out = protowire.AppendTag(out, 1, protowire.BytesType)
		out = protowire.AppendString(out, name)
		out = protowire.AppendTag(out, 2, protowire.BytesType)
		out = protowire.AppendString(out, value)
	}
	if len(c.Value) > 0 {
		out = protowire.AppendTag(out, envelopeValue, protowire.BytesType)
		out = protowire.AppendBytes(out, c.Value)
	}
	return out, nil
}

func (codec envelopeCodec) Decode(stored []byte) (Content, error) {
	rest, ok := bytes.CutPrefix(stored, envelopeMagic)
	if !ok {
		return Content{}, fmt.Errorf("not an envelope: no magic prefix")
	}
	var c Content
	err := eachField(rest, func(number protowire.Number, field []byte) error {
		switch number {
		case envelopeContentType:
			if !utf8.Valid(field) {
				return fmt.Errorf("content type is not valid UTF-8")
			}
			c.ContentType = string(field)
		case envelopeLabels:
			name, value, err := decodeLabel(field)
			if err != nil {
				return err
			}
			if c.Labels == nil {
				c.Labels = map[string]string{}
			}
			c.Labels[name] = value
		case envelopeValue:
			c.Value = field
		}
		return nil
	})
	if err != nil {
		return Content{}, fmt.Errorf("not an envelope: %w", err)
	}
	if codec.hasFields(c) {
		c.Fields = codec.schema.documentFields(c.Value)
	}
	return c, nil
}

// hasFields reports whether the value can have fields of the schema.
func (codec envelopeCodec) hasFields(c Content) bool {
	return len(codec.schema.Fields) > 0 && IsJSON(c.ContentType) && isDocument(c.Value)
}

func decodeLabel(entry []byte) (name, value string, err error) {
	err = eachField(entry, func(number protowire.Number, field []byte) error {
		if !utf8.Valid(field) {
			return fmt.Errorf("label is not valid UTF-8")
		}
		switch number {
		case 1:
			name = string(field)
		case 2:
			value = string(field)
		}
		return nil
	})
	return name, value, err
}

// eachField calls visit with every length-delimited field of a protobuf message. It skips
// fields of other types, which a later version may have added.
func eachField(message []byte, visit func(protowire.Number, []byte) error) error {
	for len(message) > 0 {
		number, wireType, n := protowire.ConsumeTag(message)
		if n < 0 {
			return protowire.ParseError(n)
		}
		message = message[n:]
		if wireType != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(number, wireType, message); n < 0 {
				return protowire.ParseError(n)
			}
			message = message[n:]
			continue
		}
		field, n := protowire.ConsumeBytes(message)
		if n < 0 {
			return protowire.ParseError(n)
		}
		message = message[n:]
		if err := visit(number, field); err != nil {
			return err
		}
	}
	return nil
}
