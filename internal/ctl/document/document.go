// Package document is the form that objects have outside of the server: in files,
// in pipes and on the screen.
//
// A document is the key of an object, its content type, its labels and its value.
// The value is in one of three members:
//
//	value   a JSON document as a part of this one, pleasant to read and to query
//	text    any other text, exactly
//	data    anything else, in base64
//
// A document without any of them has the empty value. In what this package writes
// for files ([Exact]), "value" is used only for JSON that has no spaces to lose, so
// that what is read back is byte for byte what was stored.
//
// A stream is documents one after the other: YAML with "---" between them, or JSON,
// one per line or not. A directory is the streams of the files in it.
package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/fanoutd/fanoutd/client"
)

// Document is an object as people see it.
type Document struct {
	// Key is the path of the object inside its resource. Always set.
	Key string `json:"key"`
	// ContentType is the media type of the value. Where it is empty, the server
	// decides.
	ContentType string `json:"contentType,omitempty"`
	// Labels are those of the object.
	Labels map[string]string `json:"labels,omitempty"`

	// Value, Text and Data: at most one of them is set.
	Value json.RawMessage `json:"value,omitempty"`
	Text  *string         `json:"text,omitempty"`
	Data  []byte          `json:"data,omitempty"`

	// The rest is only told, and ignored when a document is read.
	Opaque         bool  `json:"opaque,omitempty"`
	CreateRevision int64 `json:"createRevision,omitempty"`
	ModRevision    int64 `json:"modRevision,omitempty"`
	Version        int64 `json:"version,omitempty"`
}

// Of returns an object as a document to look at: JSON is a part of it, however it is
// stored, and the revisions are there.
func Of(o *client.Object) Document {
	d := form(o, json.Valid)
	d.Opaque, d.CreateRevision, d.ModRevision, d.Version = o.Opaque, o.CreateRevision, o.ModRevision, o.Version
	return d
}

// Exact returns an object as a document to keep: [Document.Object] gives back the
// very bytes. Revisions are left out, they are another server's.
func Exact(o *client.Object) Document { return form(o, compact) }

func form(o *client.Object, inline func([]byte) bool) Document {
	d := Document{Key: o.Key, ContentType: o.ContentType, Labels: maps.Clone(o.Labels)}
	switch {
	case len(o.Value) == 0:
	case IsJSON(o.ContentType) && inline(o.Value):
		d.Value = o.Value
	case utf8.Valid(o.Value):
		text := string(o.Value)
		d.Text = &text
	default:
		d.Data = o.Value
	}
	return d
}

// compact reports whether the text is JSON that writing it again does not change, and
// that can be read again: nothing is there twice.
func compact(text []byte) bool {
	if !utf8.Valid(text) {
		return false
	}
	var b bytes.Buffer
	if json.Compact(&b, text) != nil || !bytes.Equal(b.Bytes(), text) || ambiguous(text) != nil {
		return false
	}
	// Inside of a larger document these are escaped.
	return !bytes.ContainsAny(text, "<>&\u2028\u2029")
}

// IsJSON reports whether a media type is JSON or built on it.
func IsJSON(contentType string) bool {
	media, _, _ := strings.Cut(contentType, ";")
	media = strings.ToLower(strings.TrimSpace(media))
	return media == "application/json" || strings.HasSuffix(media, "+json")
}

// Bytes returns the value.
func (d *Document) Bytes() []byte {
	switch {
	case d.Value != nil:
		var b bytes.Buffer
		if err := json.Compact(&b, d.Value); err != nil {
			return d.Value
		}
		return b.Bytes()
	case d.Text != nil:
		return []byte(*d.Text)
	default:
		return d.Data
	}
}

// Type returns the content type that a write of the document asks for. A value that
// is a part of the document is JSON unless the document says otherwise.
func (d *Document) Type() string {
	if d.ContentType == "" && d.Value != nil {
		return "application/json"
	}
	return d.ContentType
}

// Same reports whether an object has what the document says. JSON that is a part of
// the document is compared without its spaces; everything else byte for byte. A
// document without a content type is content with any.
func (d *Document) Same(o *client.Object) bool {
	if t := d.Type(); t != "" && t != o.ContentType {
		return false
	}
	if !maps.Equal(d.Labels, o.Labels) {
		return false
	}
	mine := d.Bytes()
	if bytes.Equal(mine, o.Value) {
		return true
	}
	if d.Value == nil {
		return false
	}
	var theirs bytes.Buffer
	return json.Compact(&theirs, o.Value) == nil && bytes.Equal(mine, theirs.Bytes())
}

// check says what is wrong with a document that was read.
func (d *Document) check() error {
	set := 0
	for _, is := range []bool{d.Value != nil, d.Text != nil, d.Data != nil} {
		if is {
			set++
		}
	}
	switch {
	case d.Key == "":
		return errors.New("a document must have a key")
	case set > 1:
		return fmt.Errorf("the document of %q must have only one of value, text and data", d.Key)
	}
	return nil
}

// types are the endings of names that say what is inside.
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

// TypeOf guesses the content type of a value: by the name of its file, if it has
// one, and else it is JSON if it is an object or an array of JSON. Empty where that
// says nothing, and the server decides.
func TypeOf(file string, value []byte) string {
	if t, ok := types[strings.ToLower(filepath.Ext(file))]; ok {
		return t
	}
	if text := bytes.TrimSpace(value); len(text) > 0 && (text[0] == '{' || text[0] == '[') && json.Valid(text) {
		return "application/json"
	}
	return ""
}
