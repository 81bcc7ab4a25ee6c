// Package output prints objects, events and other records in a [Format]: as tables, JSON,
// YAML, values or keys.
//
// A [Printer] has the format. A [List] prints items as they arrive, [Events] the updates of a watch, and [Records]
// all rows of a table. Tables always contain styles; the writer must remove those that the terminal does not support.
package output

import (
	"fmt"
	"io"
	"slices"
	"strings"

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

// IsRecord reports whether [Printer.Record] prints in the format.
func (f Format) IsRecord() bool { return f == JSON || f == YAML || f == JSONL || f.IsTemplate() }

// Printer prints in a format.
type Printer struct {
	W      io.Writer
	Format Format
	Width  int // of the terminal; 0: there is none
}

// Record prints a single value in one of the formats that encode it: as JSON without an array, as
// YAML, as one line of JSON, or with a template.
func (p Printer) Record(v any) error {
	if p.Format.IsTemplate() {
		return p.execute(v)
	}
	text, err := document.EncodeJSON(v, p.Format == JSON)
	if p.Format == YAML {
		text, err = document.EncodeYAML(v)
	}
	if err != nil {
		return err
	}
	_, err = p.W.Write(text)
	return err
}
