// Package output prints objects, events and other records in a [Format]: as tables, JSON,
// YAML, values or keys.
//
// [Objects] prints lists of objects as they arrive, [Events] the updates of a watch, and
// [Records] rows of other types. Tables always contain styles; the writer must remove those
// that the terminal does not support.
package output

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/internal/ctl/document"
)

// Format is an output format.
type Format string

// The formats.
const (
	Table Format = "table" // aligned columns, for people
	Wide  Format = "wide"  // table with more columns
	JSON  Format = "json"  // indented; several objects are an array
	YAML  Format = "yaml"  // documents separated by ---
	JSONL Format = "jsonl" // one object per line
	Value Format = "value" // the bytes of the value; a newline follows each of several
	Key   Format = "key"   // one key per line
)

// Formats lists the formats in the order of the help text.
var Formats = []Format{Table, Wide, JSON, YAML, JSONL, Value, Key}

// Set sets the format by name, or by a template such as jsonpath=.value.rps. With String and Type it makes *Format a flag value.
func (f *Format) Set(name string) error {
	if given := Format(name); given.IsTemplate() {
		if _, err := given.template(); err != nil {
			return err
		}
		*f = given
		return nil
	}
	if !slices.Contains(Formats, Format(name)) {
		return fmt.Errorf("unknown format %q (want %s, jsonpath=… or go-template=…)", name, names())
	}
	*f = Format(name)
	return nil
}

func (f *Format) String() string { return string(*f) }

// Type returns the placeholder in the help text.
func (f *Format) Type() string { return "format" }

func names() string {
	var all []string
	for _, f := range Formats {
		all = append(all, string(f))
	}
	return strings.Join(all, ", ")
}

// Objects prints a list of objects as they arrive. Call Add for each object and Close at the
// end. Not safe for concurrent use.
type Objects struct{ list *list }

// NewObjects returns an Objects that writes to w. Width is the width of the terminal, or 0 if
// there is none.
func NewObjects(w io.Writer, format Format, width int) *Objects {
	return &Objects{newList(w, format, width, objectColumns(format == Wide))}
}

// One prints a single object: as JSON without an array, and the value exactly.
func One(w io.Writer, format Format, width int, o *client.Object) error {
	switch {
	case format.IsTemplate():
		return execute(w, format, document.Of(o))
	case format == JSON:
		return write(w, document.Of(o), true)
	case format == Value:
		_, err := w.Write(o.Value)
		return err
	}
	list := NewObjects(w, format, width)
	if err := list.Add(o); err != nil {
		return err
	}
	return list.Close()
}

// Add prints one more object.
func (l *Objects) Add(o *client.Object) error {
	return l.list.addElement(item{
		document: func() any { return document.Of(o) }, key: o.Key, value: o.Value,
		cells: func() []string { return objectCells(o, o.ModRevision, l.list.format == Wide) },
	})
}

// Close ends the list.
func (l *Objects) Close() error { return l.list.close() }

func write(w io.Writer, v any, indent bool) error {
	text, err := document.EncodeJSON(v, indent)
	if err != nil {
		return err
	}
	_, err = w.Write(text)
	return err
}

func writeYAML(w io.Writer, v any, separate bool) error {
	text, err := document.EncodeYAML(v)
	if err != nil {
		return err
	}
	if separate {
		text = append([]byte("---\n"), text...)
	}
	_, err = w.Write(text)
	return err
}

// IsRecord reports whether [Record] prints in the format.
func (f Format) IsRecord() bool { return f == JSON || f == YAML || f == JSONL || f.IsTemplate() }

// Record prints a single value of another type in one of the formats that encode it: as JSON
// without an array, as YAML, as one line of JSON, or with a template.
func Record(w io.Writer, format Format, v any) error {
	if format.IsTemplate() {
		return execute(w, format, v)
	}
	if format == YAML {
		return writeYAML(w, v, false)
	}
	return write(w, v, format == JSON)
}

// Records prints rows of another type, such as resources. Tables consist of the cells, and the
// first cell is the key. The other formats encode the rows.
func Records[T any](w io.Writer, format Format, width int, header []Column, rows []T, cells func(T) []string) error {
	if format == Value {
		format = JSONL // a row has no value
	}
	l := newList(w, format, width, header)
	for _, r := range rows {
		i := item{document: func() any { return r }, cells: func() []string { return cells(r) }}
		if format == Key {
			i.key = cells(r)[0]
		}
		if err := l.addElement(i); err != nil {
			return err
		}
	}
	return l.close()
}
