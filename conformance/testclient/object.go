package testclient

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// Object is what a test client shows of an object. A text without a content type and labels may be a JSON
// string. An object with neither Text nor Data has no value, like null.
type Object struct {
	Text        *string           `json:"text,omitempty"`
	Data        []byte            `json:"data,omitzero"` // base64 in JSON; not nil if the value is empty
	ContentType string            `json:"contentType,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
}

// NewObject returns an object with a value that is shown as text if it is one. Nil is no value.
func NewObject(value []byte, contentType string, labels map[string]string) *Object {
	o := &Object{ContentType: contentType, Labels: labels}
	switch {
	case value == nil:
	case utf8.Valid(value):
		o.Text = new(string(value))
	default:
		o.Data = value
	}
	return o
}

// Value returns the bytes of the value. Nil: there is none.
func (o *Object) Value() []byte {
	switch {
	case o == nil:
		return nil
	case o.Text != nil:
		return append([]byte{}, *o.Text...)
	default:
		return o.Data
	}
}

// UnmarshalJSON implements json.Unmarshaler.
func (o *Object) UnmarshalJSON(line []byte) error {
	if bytes.HasPrefix(line, []byte(`"`)) {
		*o = Object{Text: new(string)}
		return json.Unmarshal(line, o.Text)
	}
	type plain Object
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.DisallowUnknownFields()
	return decoder.Decode((*plain)(o))
}

// String returns the object in a short form.
func (o *Object) String() string {
	text := "(no value)"
	switch {
	case o == nil:
	case o.Text != nil:
		text = fmt.Sprintf("%.40q", *o.Text)
	case o.Data != nil:
		text = fmt.Sprintf("%.40x", o.Data)
	}
	if o != nil && (o.ContentType != "" || len(o.Labels) > 0) {
		text += fmt.Sprintf(" %s %v", o.ContentType, o.Labels)
	}
	return text
}
