package object

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// Media types that codecs give to values.
const (
	ContentJSON     = "application/json"
	ContentProtobuf = "application/protobuf"
	ContentText     = "text/plain; charset=utf-8"
	ContentBinary   = "application/octet-stream"
)

// Content is what a writer hands over and what a codec finds in a stored value.
type Content struct {
	Value       []byte
	ContentType string
	Labels      map[string]string
	Fields      []string // only of a stored value: those of the schema, in its order
}

// Codec says what the values of a resource are. Implementations have no state
// and may be used from any goroutine.
type Codec interface {
	// Name returns the name of the codec in the configuration.
	Name() string

	// Decode returns the content of a stored value. The result may share memory
	// with stored. An error means that the value is not of this codec; such an
	// object is served as it is stored.
	Decode(stored []byte) (Content, error)

	// Encode returns the form in which content is stored, or what is wrong with it.
	// The package's function of this name completes the content type first.
	Encode(content Content) ([]byte, *ContentError)
}

// ContentError says which part of a writer's content a codec refuses, and why.
type ContentError struct {
	Field  string // "value", "content_type" or "labels"
	Reason string
}

func (e *ContentError) Error() string { return e.Field + " " + e.Reason }

var codecs = map[string]func(Schema) (Codec, error){
	"object":   func(s Schema) (Codec, error) { return envelopeCodec{s}, nil },
	"json":     func(s Schema) (Codec, error) { return jsonCodec{s}, nil },
	"protobuf": newProtobufCodec,
	"raw":      func(Schema) (Codec, error) { return rawCodec{}, nil },
}

// CodecNames returns the names of all codecs, sorted.
func CodecNames() []string { return slices.Sorted(maps.Keys(codecs)) }

// CodecByName returns the codec of the given name for values without a schema. There
// is none of messages, whose type is a part of the schema.
func CodecByName(name string) (Codec, error) { return NewCodec(name, Schema{}) }

// NewCodec returns the codec of the given name for values of a schema. Raw bytes
// have neither labels nor fields. Paths are checked against the type of messages; in
// documents any path may have a value.
func NewCodec(name string, s Schema) (Codec, error) {
	newCodec, ok := codecs[name]
	if !ok {
		return nil, fmt.Errorf("unknown codec %q, must be one of %s", name, strings.Join(CodecNames(), ", "))
	}
	return newCodec(s)
}

// Encode returns the stored form of content that was handed over as text or as
// bytes. A content type that the writer left out is that of the codec, or says
// which of the two it was.
func Encode(c Codec, content Content, text bool) ([]byte, *ContentError) {
	if content.ContentType == "" {
		switch c.(type) {
		case envelopeCodec:
			content.ContentType = ContentBinary
			if text {
				content.ContentType = ContentText
			}
		case protobufCodec:
			content.ContentType = ContentProtobuf
			if text {
				content.ContentType = ContentJSON
			}
		}
	}
	return c.Encode(content)
}

// OpaqueContent returns the content of a value that did not decode: its bytes, as
// text where they are text.
func OpaqueContent(stored []byte) Content {
	c := Content{Value: stored, ContentType: ContentBinary}
	if utf8.Valid(stored) {
		c.ContentType = ContentText
	}
	return c
}

// IsText reports whether a value of this media type is shown as text: JSON,
// YAML, XML and text/*, provided that its bytes are valid UTF-8.
func IsText(contentType string, value []byte) bool {
	mediaType := mediaType(contentType)
	switch {
	case strings.HasPrefix(mediaType, "text/"),
		strings.HasSuffix(mediaType, "+json"), strings.HasSuffix(mediaType, "+yaml"), strings.HasSuffix(mediaType, "+xml"):
	case mediaType == "application/json", mediaType == "application/yaml", mediaType == "application/xml", mediaType == "application/toml":
	default:
		return false
	}
	return utf8.Valid(value)
}

// isJSON reports whether values of this media type are JSON documents.
func isJSON(contentType string) bool {
	mediaType := mediaType(contentType)
	return mediaType == ContentJSON || strings.HasSuffix(mediaType, "+json")
}

// mediaType returns a content type without its parameters.
func mediaType(contentType string) string {
	mediaType, _, _ := strings.Cut(contentType, ";")
	return strings.ToLower(strings.TrimSpace(mediaType))
}

// rawCodec stores bytes as they are.
type rawCodec struct{}

func (rawCodec) Name() string { return "raw" }

func (rawCodec) Decode(stored []byte) (Content, error) {
	return Content{Value: stored, ContentType: ContentBinary}, nil
}

func (rawCodec) Encode(c Content) ([]byte, *ContentError) { return encodePlain(c, ContentBinary) }

// jsonCodec stores JSON documents as they are.
type jsonCodec struct{ schema Schema }

func (jsonCodec) Name() string { return "json" }

func (c jsonCodec) Decode(stored []byte) (Content, error) {
	if !isDocument(stored) {
		return Content{}, fmt.Errorf("not a JSON document")
	}
	return Content{
		Value: stored, ContentType: ContentJSON,
		Labels: c.schema.documentLabels(stored), Fields: c.schema.documentFields(stored),
	}, nil
}

func isDocument(value []byte) bool { return json.Valid(value) && utf8.Valid(value) }

func (codec jsonCodec) Encode(c Content) ([]byte, *ContentError) {
	if !isDocument(c.Value) {
		return nil, &ContentError{Field: "value", Reason: "is not a JSON document, which this resource requires"}
	}
	if err := cmp.Or(codec.schema.checkFields(c.Value), codec.schema.checkLabels(c.Value)); err != nil {
		return nil, err
	}
	return encodePlain(c, ContentJSON)
}

// encodePlain stores the bare value for the codecs whose stored form has room
// for nothing else.
func encodePlain(c Content, contentType string) ([]byte, *ContentError) {
	if c.ContentType != "" && c.ContentType != contentType {
		return nil, &ContentError{Field: "content_type", Reason: fmt.Sprintf("is always %s in this resource", contentType)}
	}
	if len(c.Labels) > 0 {
		return nil, &ContentError{Field: "labels", Reason: "cannot be stored beside the value in this resource, its codec is not \"object\""}
	}
	return c.Value, nil
}
