package output

import (
	"io"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// Column is a column of a table of rows of type T.
type Column[T any] struct {
	Title    string
	Cell     func(T) string
	MinWidth int                // for a table that is flushed after each row
	Right    bool               // align to the right
	Style    ansi.Style         // of the cells
	Styled   func(T) ansi.Style // of a cell; nil: Style
	Whole    bool               // never cut: a long cell wraps on a narrow terminal
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
	rows    [][]string // cells with their styles; without a header before them
	started bool
}

// NewTable returns a TableWriter that writes to w. The last column is truncated at width, the
// width of the terminal, unless it is whole; 0 means no limit.
func NewTable[T any](w io.Writer, width int, columns ...Column[T]) *TableWriter[T] {
	t := &TableWriter[T]{w: w, width: width, columns: columns, widths: make([]int, len(columns))}
	for i, c := range columns {
		t.widths[i] = max(c.MinWidth, ansi.StringWidth(c.Title))
	}
	return t
}

// Row adds a row. Control characters in cells become spaces, so that a value cannot control
// the terminal.
func (t *TableWriter[T]) Row(row T) error {
	cells := make([]string, len(t.columns))
	for i, c := range t.columns {
		style := c.Style
		if c.Styled != nil {
			style = c.Styled(row)
		}
		cells[i] = style.Styled(Printable(c.Cell(row)))
	}
	if t.started {
		return t.write(cells)
	}
	t.rows = append(t.rows, cells)
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
	header := make([]string, len(t.columns))
	for i, c := range t.columns {
		header[i] = Bold.Styled(c.Title)
		for _, cells := range t.rows {
			t.widths[i] = max(t.widths[i], ansi.StringWidth(cells[i]))
		}
	}
	for _, cells := range append([][]string{header}, t.rows...) {
		if err := t.write(cells); err != nil {
			return err
		}
	}
	t.started, t.rows = true, nil
	return nil
}

func (t *TableWriter[T]) write(cells []string) error {
	var b strings.Builder
	used := 0
	for i, cell := range cells {
		last := i == len(cells)-1
		if i > 0 {
			b.WriteString(gap)
			used += len(gap)
		}
		if last && t.width > 0 && !t.columns[i].Whole {
			cell = ansi.Truncate(cell, max(t.width-used, minLastWidth), "…")
		}
		fill := strings.Repeat(" ", max(0, t.widths[i]-ansi.StringWidth(cell)))
		if t.columns[i].Right {
			b.WriteString(fill + cell)
		} else {
			b.WriteString(cell + fill)
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
