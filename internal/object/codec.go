package object

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// Media types of values.
const (
	ContentJSON     = "application/json"
	ContentProtobuf = "application/protobuf"
	ContentText     = "text/plain; charset=utf-8"
	ContentBinary   = "application/octet-stream"
)

// Content is the input of a write, and the decoded form of a stored value.
type Content struct {
	Value       []byte
	ContentType string
	Labels      map[string]string
	Fields      []string // values of the schema's fields, in schema order; only set by Decode
}

// Codec is a value codec: it converts between content and the stored values of a resource.
// Implementations have no state and may be used from any goroutine.
type Codec interface {
	// Name returns the name of the codec in the configuration.
	Name() string

	// Decode returns the content of a stored value. The result may share memory with
	// stored. An error means that the codec cannot decode the value; the object is then
	// served as stored.
	Decode(stored []byte) (Content, error)

	// ContentType returns the content type of a value that was written without one. Text
	// reports whether the value was sent as text or as bytes.
	ContentType(text bool) string

	// Encode returns the stored form of content. Callers use the function [Encode], which
	// fills in a missing content type first.
	Encode(content Content) ([]byte, *ContentError)
}

// ContentError is the reason why a value codec refuses content.
type ContentError struct {
	Field  string // "value", "content_type" or "labels"
	Reason string
}

func (e *ContentError) Error() string { return e.Field + " " + e.Reason }

// DefaultCodec is the value codec of resources that name none.
const DefaultCodec = "object"

// codecs are the value codecs by name.
var codecs = map[string]struct {
	make func(Schema) (Codec, error)
	CodecSettings
}{
	DefaultCodec: {func(s Schema) (Codec, error) { return envelopeCodec{s}, nil }, CodecSettings{Fields: true, StoresLabels: true}},
	"json":       {func(s Schema) (Codec, error) { return jsonCodec{s}, nil }, CodecSettings{Fields: true, LabelsPath: true, DefaultLabelsPath: DefaultLabelsPath}},
	"protobuf":   {newProtobufCodec, CodecSettings{Fields: true, LabelsPath: true, Message: true}},
	"raw":        {func(Schema) (Codec, error) { return rawCodec{}, nil }, CodecSettings{}},
}

// CodecSettings says which settings a resource may have with a value codec, and what a writer may choose.
type CodecSettings struct {
	Fields            bool   // the values have fields
	LabelsPath        bool   // the values have labels inside
	DefaultLabelsPath string // where they are, unless the resource says so
	Message           bool   // the resource must name the type of its messages
	StoresLabels      bool   // a writer chooses the labels, which are stored beside the value
}

// CodecNames returns the names of all value codecs, sorted.
func CodecNames() []string { return slices.Sorted(maps.Keys(codecs)) }

// SettingsOfCodec returns the settings for the value codec with the given name. Those of an unknown
// one are those of the default, so that only the name is refused.
func SettingsOfCodec(name string) CodecSettings {
	c, ok := codecs[name]
	if !ok {
		c = codecs[DefaultCodec]
	}
	return c.CodecSettings
}

// StoresLabels reports whether a writer chooses the labels of an object in a resource with the named value
// codec. It is false for an unknown codec.
func StoresLabels(codec string) bool { return codecs[codec].StoresLabels }

// CodecByName returns the value codec with the given name for an empty schema. It fails for
// one that needs the message type from a schema.
func CodecByName(name string) (Codec, error) { return NewCodec(name, Schema{}) }

// NewCodec returns the value codec with the given name for a schema. The codec "raw" ignores
// the schema. The codec "protobuf" checks the paths of the schema against the message
// type; the other codecs accept any path.
func NewCodec(name string, s Schema) (Codec, error) {
	c, ok := codecs[name]
	if !ok {
		return nil, fmt.Errorf("unknown codec %q, must be one of %s", name, strings.Join(CodecNames(), ", "))
	}
	return c.make(s)
}

// Encode returns the stored form of content. Text reports whether the writer sent the value
// as text or as bytes.
func Encode(c Codec, content Content, text bool) ([]byte, *ContentError) {
	if content.ContentType == "" {
		content.ContentType = c.ContentType(text)
	}
	return c.Encode(content)
}

// OpaqueContent returns the content of a value that its codec cannot decode: its bytes, as
// text if they are valid UTF-8.
func OpaqueContent(stored []byte) Content {
	c := Content{Value: stored, ContentType: ContentBinary}
	if utf8.Valid(stored) {
		c.ContentType = ContentText
	}
	return c
}

// IsText reports whether a value is text: its media type is JSON, YAML, XML, TOML or
// text/*, and its bytes are valid UTF-8.
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

// IsJSON reports whether values of this media type are JSON documents.
func IsJSON(contentType string) bool {
	mediaType := mediaType(contentType)
	return mediaType == ContentJSON || strings.HasSuffix(mediaType, "+json")
}

// mediaType returns a content type without its parameters.
func mediaType(contentType string) string {
	mediaType, _, _ := strings.Cut(contentType, ";")
	return strings.ToLower(strings.TrimSpace(mediaType))
}

// rawCodec stores bytes unchanged.
type rawCodec struct{}

func (rawCodec) Name() string { return "raw" }

func (rawCodec) ContentType(bool) string { return ContentBinary }

func (rawCodec) Decode(stored []byte) (Content, error) {
	return Content{Value: stored, ContentType: ContentBinary}, nil
}

func (rawCodec) Encode(c Content) ([]byte, *ContentError) { return encodePlain(c, ContentBinary) }

// jsonCodec stores JSON documents unchanged.
type jsonCodec struct{ schema Schema }

func (jsonCodec) Name() string { return "json" }

func (jsonCodec) ContentType(bool) string { return ContentJSON }

func (c jsonCodec) Decode(stored []byte) (Content, error) {
	if !isDocument(stored) {
		return Content{}, fmt.Errorf("not a JSON document")
	}
	return Content{
		Value: stored, ContentType: ContentJSON,
		Labels: c.schema.documentLabels(stored), Fields: c.schema.documentFields(stored),
	}, nil
}

func (codec jsonCodec) Encode(c Content) ([]byte, *ContentError) {
	if !isDocument(c.Value) {
		return nil, &ContentError{Field: "value", Reason: "is not a JSON document, which this resource requires: " + documentFault(c.Value)}
	}
	if err := cmp.Or(codec.schema.checkFields(c.Value), codec.schema.checkLabels(c.Value)); err != nil {
		return nil, err
	}
	return encodePlain(c, ContentJSON)
}

// encodePlain encodes content for codecs that store only the value.
func encodePlain(c Content, contentType string) ([]byte, *ContentError) {
	if c.ContentType != "" && c.ContentType != contentType {
		return nil, &ContentError{Field: "content_type", Reason: fmt.Sprintf("is always %s in this resource", contentType)}
	}
	if len(c.Labels) > 0 {
		return nil, &ContentError{Field: "labels", Reason: "cannot be stored separately in this resource, because its codec is not \"object\""}
	}
	return c.Value, nil
}
