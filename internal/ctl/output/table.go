package output

import (
	"io"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// Column is a column of a table of rows of type T.
type Column[T any] struct {
	Title  string
	Cell   func(T) string
	Right  bool               // align to the right
	Style  ansi.Style         // of the cells
	Styled func(T) ansi.Style // of a cell; nil: Style
	Whole  bool               // never cut: a long cell wraps on a narrow terminal
}

// sampleRows is how many rows determine the column widths. Wider cells in later rows break
// the alignment of their row.
const sampleRows = 200

// gap separates the columns.
const gap = "  "

// minLastWidth is the minimum width of the last column on a narrow terminal.
const minLastWidth = 8

// TableWriter writes a table row by row. It buffers only the first rows, to determine the
// column widths. Not safe for concurrent use.
type TableWriter[T any] struct {
	w       io.Writer
	width   int
	columns []Column[T]
	widths  []int
	rows    []line // without a header before them
	started bool
}

// line is a line of a table.
type line struct {
	cells  []string
	styles []ansi.Style
}

// NewTable returns a TableWriter that writes to w. The last column is truncated at width, the
// width of the terminal, unless it is whole; 0 means no limit.
func NewTable[T any](w io.Writer, width int, columns ...Column[T]) *TableWriter[T] {
	t := &TableWriter[T]{w: w, width: width, columns: columns, widths: make([]int, len(columns))}
	for i, c := range columns {
		t.widths[i] = ansi.StringWidth(c.Title)
	}
	return t
}

// Row adds a row. Control characters in cells become spaces, so that a value cannot control
// the terminal.
func (t *TableWriter[T]) Row(row T) error {
	var l line
	for _, c := range t.columns {
		style := c.Style
		if c.Styled != nil {
			style = c.Styled(row)
		}
		l.cells, l.styles = append(l.cells, Printable(c.Cell(row))), append(l.styles, style)
	}
	if t.started {
		return t.write(l)
	}
	t.rows = append(t.rows, l)
	if len(t.rows) < sampleRows {
		return nil
	}
	return t.Flush()
}

// Flush writes the buffered rows. A table without rows has no header either.
func (t *TableWriter[T]) Flush() error {
	if len(t.rows) == 0 {
		return nil
	}
	var header line
	for i, c := range t.columns {
		header.cells, header.styles = append(header.cells, c.Title), append(header.styles, Bold)
		for _, l := range t.rows {
			t.widths[i] = max(t.widths[i], ansi.StringWidth(l.cells[i]))
		}
	}
	for _, l := range append([]line{header}, t.rows...) {
		if err := t.write(l); err != nil {
			return err
		}
	}
	t.started, t.rows = true, nil
	return nil
}

// SetMinWidth sets the minimum width of a column. Use it for tables that are flushed after
// each row.
func (t *TableWriter[T]) SetMinWidth(column, width int) {
	t.widths[column] = max(t.widths[column], width)
}

func (t *TableWriter[T]) write(l line) error {
	var b strings.Builder
	used := 0
	for i, cell := range l.cells {
		last := i == len(l.cells)-1
		if i > 0 {
			b.WriteString(gap)
			used += len(gap)
		}
		if last && t.width > 0 && !t.columns[i].Whole {
			cell = ansi.Truncate(cell, max(t.width-used, minLastWidth), "…")
		}
		fill := strings.Repeat(" ", max(0, t.widths[i]-ansi.StringWidth(cell)))
		if shown := l.styles[i].Styled(cell); t.columns[i].Right {
			b.WriteString(fill + shown)
		} else {
			b.WriteString(shown + fill)
		}
		used += max(t.widths[i], ansi.StringWidth(cell))
	}
	_, err := io.WriteString(t.w, strings.TrimRight(b.String(), " ")+"\n")
	return err
}

// Printable replaces control characters with spaces.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return ' '
		}
		return r
	}, s)
}

// The styles of tables and messages.
var (
	Plain  = ansi.Style{}
	Bold   = ansi.Style{}.Bold()
	Faint  = ansi.Style{}.Faint()
	Good   = ansi.Style{}.ForegroundColor(ansi.Green)
	Notice = ansi.Style{}.ForegroundColor(ansi.Yellow)
	Bad    = ansi.Style{}.ForegroundColor(ansi.Red)
	Name   = ansi.Style{}.ForegroundColor(ansi.Cyan)
)
