package output

import (
	"bytes"
	"fmt"

	"github.com/fanoutd/fanoutd/internal/ctl/document"
)

// List prints items as they arrive. Call Add for each of them and Close at the end. Not safe for concurrent use.
type List[T any] struct {
	Printer
	// Columns are those of a table. The first one is the key, unless Key returns it.
	Columns []Column[T]
	Key     func(T) string
	// Value returns the bytes that the format Value prints.
	Value func(T) []byte
	// Document returns what the formats for programs encode.
	Document func(T) any
	// Array makes the items elements of one array of JSON. Otherwise each is a document of its own.
	Array bool

	n      int        // encoded items
	rows   [][]string // of a table: those that wait for the widths of the columns
	widths []int
}

// Add prints an item.
func (l *List[T]) Add(item T) error {
	switch l.Format {
	case Table, Wide:
		return l.row(item)
	case Value:
		_, err := fmt.Fprintf(l.W, "%s\n", l.Value(item))
		return err
	case Key:
		key := l.Key
		if key == nil {
			key = l.Columns[0].Cell
		}
		_, err := fmt.Fprintln(l.W, key(item))
		return err
	}
	return l.encode(l.Document(item))
}

// encode prints a document in one of the formats for programs.
func (l *List[T]) encode(v any) error {
	l.n++
	switch {
	case l.Format == JSON && l.Array:
		return l.encodeElement(v)
	case l.Format == YAML && l.n > 1:
		if _, err := fmt.Fprintln(l.W, "---"); err != nil {
			return err
		}
	}
	if err := l.Record(v); err != nil || !l.Format.IsTemplate() {
		return err
	}
	_, err := fmt.Fprintln(l.W)
	return err
}

func (l *List[T]) encodeElement(v any) error {
	text, err := document.EncodeJSON(v, true)
	if err != nil {
		return err
	}
	opening := ",\n"
	if l.n == 1 {
		opening = "[\n"
	}
	text = bytes.ReplaceAll(bytes.TrimRight(text, "\n"), []byte("\n"), []byte("\n  "))
	_, err = fmt.Fprintf(l.W, "%s  %s", opening, text)
	return err
}

// Close ends the list.
func (l *List[T]) Close() error {
	end := ""
	switch {
	case l.Format == Table || l.Format == Wide:
		return l.flushRows()
	case l.Format == JSON && l.Array && l.n == 0:
		end = "[]\n"
	case l.Format == JSON && l.Array:
		end = "\n]\n"
	}
	_, err := fmt.Fprint(l.W, end)
	return err
}

// Records prints rows, such as resources. The first column is the key. The formats for programs
// encode the rows.
func Records[T any](p Printer, columns []Column[T], rows []T) error {
	if p.Format == Value {
		p.Format = JSONL // a row has no value
	}
	l := List[T]{Printer: p, Columns: columns, Document: func(row T) any { return row }, Array: true}
	for _, row := range rows {
		if err := l.Add(row); err != nil {
			return err
		}
	}
	return l.Close()
}
