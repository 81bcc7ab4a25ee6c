package output

import (
	"bytes"
	"fmt"
	"io"

	"github.com/charmbracelet/x/ansi"

	"github.com/fanoutd/fanoutd/internal/ctl/document"
)

// list prints items in a format, as they arrive.
type list struct {
	w      io.Writer
	format Format
	table  *TableWriter // of the formats Table and Wide; nil: of no other
	n      int          // items
}

// item is an item of a list.
type item struct {
	document func() any // for the formats that encode it
	key      string
	value    []byte
	style    ansi.Style // of the first cell
	cells    func() []string
}

func newList(w io.Writer, format Format, width int, columns []Column) *list {
	l := &list{w: w, format: format}
	if format == Table || format == Wide {
		l.table = NewTable(w, width, columns...)
	}
	return l
}

// add prints an item. As JSON, it is a document of its own.
func (l *list) add(i item) error {
	l.n++
	if l.format.IsTemplate() {
		return executeLine(l.w, l.format, i.document())
	}
	switch l.format {
	case JSON, JSONL:
		return write(l.w, i.document(), l.format == JSON)
	case YAML:
		return writeYAML(l.w, i.document(), l.n > 1)
	case Value:
		_, err := fmt.Fprintf(l.w, "%s\n", i.value)
		return err
	case Key:
		_, err := fmt.Fprintln(l.w, i.key)
		return err
	}
	return l.table.StyledRow(i.style, i.cells()...)
}

// addElement prints an item. As JSON, it is an element of an array, which close ends.
func (l *list) addElement(i item) error {
	if l.format != JSON {
		return l.add(i)
	}
	l.n++
	text, err := document.EncodeJSON(i.document(), true)
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
}

// close ends a list of elements.
func (l *list) close() error {
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
