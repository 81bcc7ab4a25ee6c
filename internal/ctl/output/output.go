// Package output shows objects and events on standard output, in the format that
// was asked for.
//
// Colours are always written; whoever made the writer takes them away where they
// are not wanted.
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

// Format is a way to show objects.
type Format string

// The formats.
const (
	Table Format = "table" // aligned columns, for people
	Wide  Format = "wide"  // table with more columns
	JSON  Format = "json"  // indented; several objects are an array
	YAML  Format = "yaml"  // documents with --- between them
	JSONL Format = "jsonl" // one object per line
	Value Format = "value" // the bytes of the value; several with a line break behind each
	Key   Format = "key"   // one key per line
)

// Formats are all of them, in the order in which help shows them.
var Formats = []Format{Table, Wide, JSON, YAML, JSONL, Value, Key}

// Set takes the name of a format; with [Format.String] and [Format.Type] it makes
// Format the value of a flag.
func (f *Format) Set(name string) error {
	if !slices.Contains(Formats, Format(name)) {
		return fmt.Errorf("%q is no format; there are %s", name, names())
	}
	*f = Format(name)
	return nil
}

func (f *Format) String() string { return string(*f) }

// Type is what help calls a value.
func (f *Format) Type() string { return "format" }

func names() string {
	var all []string
	for _, f := range Formats {
		all = append(all, string(f))
	}
	return strings.Join(all, ", ")
}

// Objects shows a list of objects as they come. Call Add for each and Close at the
// end. Not safe for concurrent use.
type Objects struct {
	w      io.Writer
	format Format
	table  *Columns
	n      int
}

// NewObjects shows on w. Width is that of the terminal in columns, 0 where there is
// none. With single there will be at most one object: as JSON it is no array, and
// the value is shown byte for byte.
func NewObjects(w io.Writer, format Format, width int) *Objects {
	o := &Objects{w: w, format: format}
	if format == Table || format == Wide {
		o.table = NewColumns(w, width, objectColumns(format == Wide)...)
	}
	return o
}

// One shows one object.
func One(w io.Writer, format Format, width int, o *client.Object) error {
	switch format {
	case JSON:
		return write(w, object(o), true)
	case Value:
		_, err := w.Write(o.Value)
		return err
	}
	list := NewObjects(w, format, width)
	if err := list.Add(o); err != nil {
		return err
	}
	return list.Close()
}

// Add shows one more object.
func (l *Objects) Add(o *client.Object) error {
	l.n++
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
		return l.table.Row(objectCells(o, l.format == Wide)...)
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

// Records shows rows of something else than objects, such as resources: as a table
// of the cells, or as it is in the other formats. Cells of the first column are the
// keys.
func Records[T any](w io.Writer, format Format, width int, header []Column, rows []T, cells func(T) []string) error {
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
		table := NewColumns(w, width, header...)
		for _, r := range rows {
			if err := table.Row(cells(r)...); err != nil {
				return err
			}
		}
		return table.Flush()
	}
}
