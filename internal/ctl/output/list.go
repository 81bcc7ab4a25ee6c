package output

import (
	"bytes"
	"fmt"

	"github.com/fanoutd/fanoutd/internal/ctl/document"
)

// list prints items in a format, as they arrive.
type list[T any] struct {
	Documents
	content[T]
	table *TableWriter[T] // of the formats Table and Wide; nil: of no other
}

// content is what the formats show of an item.
type content[T any] struct {
	columns  []Column[T]
	document func(T) any
	key      func(T) string
	value    func(T) []byte
}

func newList[T any](p Printer, c content[T]) *list[T] {
	l := &list[T]{Documents: Documents{Printer: p}, content: c}
	if p.Format == Table || p.Format == Wide {
		l.table = NewTable(p.W, p.Width, c.columns...)
	}
	return l
}

// add prints an item. As JSON, it is a document of its own.
func (l *list[T]) add(item T) error {
	switch l.Format {
	case Table, Wide:
		return l.table.Row(item)
	case Value:
		_, err := fmt.Fprintf(l.W, "%s\n", l.value(item))
		return err
	case Key:
		_, err := fmt.Fprintln(l.W, l.key(item))
		return err
	}
	return l.Add(l.document(item))
}

// addElement prints an item. As JSON, it is an element of an array, which close ends.
func (l *list[T]) addElement(item T) error {
	if l.Format != JSON {
		return l.add(item)
	}
	l.n++
	text, err := document.EncodeJSON(l.document(item), true)
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

// close ends a list of elements.
func (l *list[T]) close() error {
	switch {
	case l.table != nil:
		return l.table.Flush()
	case l.Format == JSON && l.n == 0:
		_, err := fmt.Fprintln(l.W, "[]")
		return err
	case l.Format == JSON:
		_, err := fmt.Fprint(l.W, "\n]\n")
		return err
	}
	return nil
}
