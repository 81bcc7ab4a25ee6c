// Package output prints objects, events and other records in a [Format]: as tables, JSON,
// YAML, values or keys.
//
// [Objects] prints lists of objects as they arrive, [Events] the updates of a watch, and
// [Records] rows of other types. Tables always contain styles; the writer must remove those
// that the terminal does not support.
package output

import (
	"bytes"
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
type Objects struct {
	w      io.Writer
	format Format
	table  *TableWriter
	n      int
}

// NewObjects returns an Objects that writes to w. Width is the width of the terminal, or 0 if
// there is none.
func NewObjects(w io.Writer, format Format, width int) *Objects {
	o := &Objects{w: w, format: format}
	if format == Table || format == Wide {
		o.table = NewTable(w, width, objectColumns(format == Wide)...)
	}
	return o
}

// One prints a single object: as JSON without an array, and the value exactly.
func One(w io.Writer, format Format, width int, o *client.Object) error {
	switch {
	case format.IsTemplate():
		return execute(w, format, object(o))
	case format == JSON:
		return write(w, object(o), true)
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
	l.n++
	if l.format.IsTemplate() {
		return executeLine(l.w, l.format, object(o))
	}
	switch l.format {
	case JSON:
		text, err := document.EncodeJSON(object(o), true)
		if err != nil {
			return err
		}
		opening := ",\n"
		if l.n == 1 {
			opening = "[\n"
		}
		text = bytes.ReplaceAll(bytes.TrimRight(text, "\n"), []byte("\n"), []byte("\n  "))
		_, err = fmt.Fprintf(l.w, "%s  %s", opening, text)
		return err
	case YAML:
		return writeYAML(l.w, object(o), l.n > 1)
	case JSONL:
		return write(l.w, object(o), false)
	case Value:
		_, err := fmt.Fprintf(l.w, "%s\n", o.Value)
		return err
	case Key:
		_, err := fmt.Fprintln(l.w, o.Key)
		return err
	default:
		return l.table.Row(objectCells(o, o.ModRevision, l.format == Wide)...)
	}
}

// Close ends the list.
func (l *Objects) Close() error {
	switch {
	case l.table != nil:
		return l.table.Flush()
	case l.format == JSON && l.n == 0:
		_, err := fmt.Fprintln(l.w, "[]")
		return err
	case l.format == JSON:
		_, err := fmt.Fprint(l.w, "\n]\n")
		return err
	}
	return nil
}

func object(o *client.Object) document.Document { return document.Of(o) }

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
	if format.IsTemplate() {
		for _, r := range rows {
			if err := executeLine(w, format, r); err != nil {
				return err
			}
		}
		return nil
	}
	switch format {
	case JSON:
		if rows == nil {
			rows = []T{}
		}
		return write(w, rows, true)
	case YAML, JSONL, Value:
		for i, r := range rows {
			var err error
			if format == YAML {
				err = writeYAML(w, r, i > 0)
			} else {
				err = write(w, r, false)
			}
			if err != nil {
				return err
			}
		}
		return nil
	case Key:
		for _, r := range rows {
			if _, err := fmt.Fprintln(w, cells(r)[0]); err != nil {
				return err
			}
		}
		return nil
	default:
		table := NewTable(w, width, header...)
		for _, r := range rows {
			if err := table.Row(cells(r)...); err != nil {
				return err
			}
		}
		return table.Flush()
	}
}
