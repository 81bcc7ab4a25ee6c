// Package document converts objects to and from documents, the form that objects have in
// files, in pipes and on the screen.
//
// A document has the key of an object, its content type, its labels and its value. The value
// is in one of three fields:
//
//	value   embedded JSON, which is easy to read and to query
//	text    other text, exactly
//	data    other bytes, in base64
//
// A document without these fields has an empty value. [Of] makes a document to look at.
// [Exact] makes one to keep: it uses "value" only for JSON without insignificant spaces, so
// that reading the document restores the exact bytes.
//
// [Read] reads a sequence of documents: YAML separated by "---", or JSON. A [Source] is a
// file, a directory or standard input.
package document

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/fanoutd/fanoutd/client"
)

// Document is an object outside of the server.
type Document struct {
	// Key is required.
	Key string `json:"key"`
	Content

	// The fields below are output only, and ignored in input.
	Opaque         bool  `json:"opaque,omitempty"`
	CreateRevision int64 `json:"createRevision,omitempty"`
	ModRevision    int64 `json:"modRevision,omitempty"`
	Version        int64 `json:"version,omitempty"`
	HasTTL         bool  `json:"hasTtl,omitempty"`
	// TTL is what is left of the time to live, such as "59s".
	TTL string `json:"ttl,omitempty"`

	// Where is the place of a document that was read, for messages.
	Where string `json:"-"`

	place string // of a document in a file
	file  string
	line  func(pointer string) int // nil: not known
}

// Content is what a document or an [Operation] writes.
type Content struct {
	// ContentType is the media type of the value. If it is empty, the server chooses one.
	ContentType string            `json:"contentType,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`

	// At most one of Value, Text and Data is set.
	Value json.RawMessage `json:"value,omitempty"`
	Text  *string         `json:"text,omitempty"`
	Data  []byte          `json:"data,omitempty"`
}

// NewContent returns the content with a value, as text if it is text.
func NewContent(contentType string, value []byte) Content {
	if !utf8.Valid(value) {
		return Content{ContentType: contentType, Data: value}
	}
	text := string(value)
	return Content{ContentType: contentType, Text: &text}
}

// Of returns the document of an object for display. It embeds any valid JSON and includes the
// revisions.
func Of(o *client.Object) Document {
	d := newDocument(o, json.Valid)
	d.Opaque, d.CreateRevision, d.ModRevision, d.Version = o.Opaque, o.CreateRevision, o.ModRevision, o.Version
	if d.HasTTL = o.HasTTL; o.TTL > 0 {
		d.TTL = o.TTL.String()
	}
	return d
}

// Exact returns the document of an object for an export. [Document.Bytes] restores the exact
// value. Revisions are omitted, because they are meaningless on another server.
func Exact(o *client.Object) Document { return newDocument(o, isCompact) }

// newDocument embeds a JSON value if embed reports true for it.
func newDocument(o *client.Object, embed func([]byte) bool) Document {
	d := Document{Key: o.Key, Content: Content{ContentType: o.ContentType}}
	switch {
	case len(o.Value) == 0:
	case IsJSON(o.ContentType) && embed(o.Value):
		d.Value = o.Value
	default:
		d.Content = NewContent(o.ContentType, o.Value)
	}
	d.Labels = maps.Clone(o.Labels)
	return d
}

// isCompact reports whether the text is JSON that survives being embedded and read again:
// without insignificant spaces, duplicate keys and needless escapes.
func isCompact(text []byte) bool {
	tree, err := parseJSON(text)
	if err != nil {
		return false
	}
	again, err := toJSON(tree)
	return err == nil && bytes.Equal(again, text)
}

// IsJSON reports whether a media type is JSON or based on it.
func IsJSON(contentType string) bool {
	media, _, _ := strings.Cut(contentType, ";")
	media = strings.ToLower(strings.TrimSpace(media))
	return media == "application/json" || strings.HasSuffix(media, "+json")
}

// Bytes returns the value. Embedded JSON is compacted.
func (c *Content) Bytes() []byte {
	switch {
	case c.Value != nil:
		var b bytes.Buffer
		if err := json.Compact(&b, c.Value); err != nil {
			return c.Value
		}
		return b.Bytes()
	case c.Text != nil:
		return []byte(*c.Text)
	default:
		return c.Data
	}
}

// Type returns the content type to write. Embedded JSON is application/json unless the
// document sets another type.
func (c *Content) Type() string {
	if c.ContentType == "" && c.Value != nil {
		return "application/json"
	}
	return c.ContentType
}

// Matches reports whether an object has the content of the document. Embedded JSON is
// compared without insignificant spaces, everything else exactly. A document without a
// content type matches any content type.
func (d *Document) Matches(o *client.Object) bool {
	if t := d.Type(); t != "" && t != o.ContentType {
		return false
	}
	if !maps.Equal(d.Labels, o.Labels) {
		return false
	}
	want := d.Bytes()
	if bytes.Equal(want, o.Value) {
		return true
	}
	if d.Value == nil {
		return false
	}
	var got bytes.Buffer
	return json.Compact(&got, o.Value) == nil && bytes.Equal(want, got.Bytes())
}

// readAt notes where a document was read, and validates it.
func (d *Document) readAt(where string) error {
	switch d.Where, d.place = where, where; {
	case d.Key == "":
		return ErrPlainValue
	case d.values() > 1:
		return fmt.Errorf("document of %q has more than one of value, text and data", d.Key)
	}
	return nil
}

// values returns how many of Value, Text and Data are set.
func (c *Content) values() int {
	n := 0
	for _, set := range []bool{c.Value != nil, c.Text != nil, c.Data != nil} {
		if set {
			n++
		}
	}
	return n
}

// types maps file extensions to media types.
var types = map[string]string{
	".json": "application/json",
	".yaml": "application/yaml",
	".yml":  "application/yaml",
	".toml": "application/toml",
	".xml":  "application/xml",
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".csv":  "text/csv; charset=utf-8",
	".md":   "text/markdown; charset=utf-8",
}

// TypeOf guesses the content type of a value from the extension of its file, or by detecting
// a JSON object or array. It returns "" if the server is to choose one, and an error if the value is not
// the JSON that the extension or its beginning promises.
func TypeOf(file string, value []byte) (string, error) {
	t, known := types[strings.ToLower(filepath.Ext(file))]
	begin := bytes.TrimSpace(value)
	if known && !IsJSON(t) || !known && !bytes.HasPrefix(begin, []byte("{")) && !bytes.HasPrefix(begin, []byte("[")) {
		return t, nil
	}
	if err := json.Unmarshal(value, new(json.RawMessage)); err != nil {
		return t, fmt.Errorf("the value is not valid JSON: %w", err)
	}
	return "application/json", nil
}
