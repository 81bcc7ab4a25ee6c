package object

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// protobufCodec stores the binary form of messages of one type.
type protobufCodec struct {
	message *MessageType
	labels  messagePath // empty: the type has no labels
	fields  []messagePath
}

func newProtobufCodec(s Schema) (Codec, error) {
	if s.Message == nil {
		return nil, errors.New("the codec protobuf needs a message type")
	}
	c := protobufCodec{message: s.Message}
	var err error
	if c.labels, err = s.Message.labels(s.Labels); err != nil {
		return nil, fmt.Errorf("path of the labels: %w", err)
	}
	for _, f := range s.Fields {
		path, err := s.Message.field(f.Path)
		if err != nil {
			return nil, fmt.Errorf("path of the field %q: %w", f.Name, err)
		}
		c.fields = append(c.fields, path)
	}
	return c, nil
}

func (protobufCodec) Name() string { return "protobuf" }

func (protobufCodec) ContentType(text bool) string {
	if text {
		return ContentJSON
	}
	return ContentProtobuf
}

func (c protobufCodec) Decode(stored []byte) (Content, error) {
	m, err := c.message.unmarshal(stored)
	if err != nil {
		return Content{}, err
	}
	content := Content{Value: stored, ContentType: ContentProtobuf, Labels: c.labelsOf(m)}
	if len(c.fields) > 0 {
		content.Fields = make([]string, len(c.fields))
		for i, path := range c.fields {
			content.Fields[i] = path.text(m)
		}
	}
	return content, nil
}

func (c protobufCodec) labelsOf(m protoreflect.Message) map[string]string {
	if len(c.labels) == 0 {
		return nil
	}
	found, ok := c.labels.find(m)
	if !ok || found.Map().Len() == 0 {
		return nil
	}
	labels := make(map[string]string, found.Map().Len())
	for name, value := range found.Map().Range {
		labels[validText(name.String())] = validText(value.String())
	}
	return labels
}

// validText replaces invalid UTF-8 in s. Only proto2 messages can have such strings.
func validText(s string) string { return strings.ToValidUTF8(s, string(utf8.RuneError)) }

func (c protobufCodec) Encode(content Content) ([]byte, *ContentError) {
	var m protoreflect.Message
	var err error
	switch mediaType(content.ContentType) {
	case "", ContentProtobuf:
		if m, err = c.message.unmarshal(content.Value); err != nil {
			return nil, &ContentError{Field: "value", Reason: "is " + err.Error()}
		}
	case ContentJSON:
		if m, content.Value, err = c.message.fromJSON(content.Value); err != nil {
			return nil, &ContentError{Field: "value", Reason: "is " + err.Error()}
		}
	default:
		return nil, &ContentError{Field: "content_type", Reason: fmt.Sprintf("must be %s or %s in this resource", ContentProtobuf, ContentJSON)}
	}
	if err := CheckLabels("value", c.labelsOf(m)); err != nil {
		return nil, err
	}
	content.ContentType = ""
	return encodePlain(content, ContentProtobuf)
}

// unmarshal decodes the binary form of a message.
func (t *MessageType) unmarshal(data []byte) (protoreflect.Message, error) {
	m := t.message.New()
	if err := (proto.UnmarshalOptions{Resolver: t.types}).Unmarshal(data, m.Interface()); err != nil {
		return nil, fmt.Errorf("not a message %s: %s", t.message.Descriptor().FullName(), plainError(err))
	}
	return m, nil
}

// fromJSON decodes the JSON form of a message, and returns its binary form, too. It encodes
// equal messages to equal bytes.
func (t *MessageType) fromJSON(text []byte) (m protoreflect.Message, binary []byte, err error) {
	m = t.message.New()
	if err := (protojson.UnmarshalOptions{Resolver: t.types}).Unmarshal(text, m.Interface()); err != nil {
		return nil, nil, fmt.Errorf("not the JSON form of a message %s: %s", t.message.Descriptor().FullName(), plainError(err))
	}
	binary, err = proto.MarshalOptions{Deterministic: true}.Marshal(m.Interface())
	return m, binary, err
}

// plainError returns the text of an error of the protobuf library without its prefix. The
// library randomly uses non-breaking spaces; plainError replaces them.
func plainError(err error) string {
	text := strings.ReplaceAll(err.Error(), "\u00a0", " ")
	return strings.TrimPrefix(text, "proto: ")
}
