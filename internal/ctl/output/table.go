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

// row adds a row of a table. Only the first rows wait, to determine the column widths. Control characters in cells
// become spaces, so that a value cannot control the terminal.
func (l *List[T]) row(item T) error {
	cells := make([]string, len(l.Columns))
	for i, c := range l.Columns {
		style := c.Style
		if c.Styled != nil {
			style = c.Styled(item)
		}
		cells[i] = style.Styled(Printable(c.Cell(item)))
	}
	if l.widths != nil {
		return l.writeRow(cells)
	}
	l.rows = append(l.rows, cells)
	if len(l.rows) < sampleRows {
		return nil
	}
	return l.flushRows()
}

// flushRows writes the rows that wait after a header. A table without rows has no header either.
func (l *List[T]) flushRows() error {
	if len(l.rows) == 0 {
		return nil
	}
	header := make([]string, len(l.Columns))
	l.widths = make([]int, len(l.Columns))
	for i, c := range l.Columns {
		header[i] = Bold.Styled(c.Title)
		l.widths[i] = max(c.MinWidth, ansi.StringWidth(c.Title))
		for _, cells := range l.rows {
			l.widths[i] = max(l.widths[i], ansi.StringWidth(cells[i]))
		}
	}
	for _, cells := range append([][]string{header}, l.rows...) {
		if err := l.writeRow(cells); err != nil {
			return err
		}
	}
	l.rows = nil
	return nil
}

// writeRow writes a row. The last column is cut at the width of the terminal, unless it is whole.
func (l *List[T]) writeRow(cells []string) error {
	var b strings.Builder
	used := 0
	for i, cell := range cells {
		last := i == len(cells)-1
		if i > 0 {
			b.WriteString(gap)
			used += len(gap)
		}
		if last && l.Width > 0 && !l.Columns[i].Whole {
			cell = ansi.Truncate(cell, max(l.Width-used, minLastWidth), "…")
		}
		fill := strings.Repeat(" ", max(0, l.widths[i]-ansi.StringWidth(cell)))
		if l.Columns[i].Right {
			b.WriteString(fill + cell)
		} else {
			b.WriteString(cell + fill)
		}
		used += max(l.widths[i], ansi.StringWidth(cell))
	}
	_, err := io.WriteString(l.W, strings.TrimRight(b.String(), " ")+"\n")
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
