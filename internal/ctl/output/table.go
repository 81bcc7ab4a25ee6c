package output

import (
	"io"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// Column is a column of a table.
type Column struct {
	Title string
	Right bool       // align to the right
	Style ansi.Style // of the cells
	Whole bool       // never cut: a long cell wraps on a narrow terminal
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
type TableWriter struct {
	w       io.Writer
	width   int
	columns []Column
	widths  []int
	rows    []row
	started bool
}

type row struct {
	first ansi.Style
	cells []string
}

// NewTable returns a TableWriter that writes to w. The last column is truncated at width, the
// width of the terminal, unless it is whole; 0 means no limit.
func NewTable(w io.Writer, width int, columns ...Column) *TableWriter {
	t := &TableWriter{w: w, width: width, columns: columns, widths: make([]int, len(columns))}
	for i, c := range columns {
		t.widths[i] = ansi.StringWidth(c.Title)
	}
	return t
}

// Row adds a row. Control characters in cells become spaces, so that a value cannot control
// the terminal.
func (t *TableWriter) Row(cells ...string) error {
	return t.StyledRow(nil, cells...)
}

// StyledRow adds a row whose first cell has the given style, or the style of its column if it
// is nil.
func (t *TableWriter) StyledRow(first ansi.Style, cells ...string) error {
	for i, cell := range cells {
		cells[i] = Printable(cell)
	}
	r := row{first, cells}
	if t.started {
		return t.line(r, false)
	}
	t.rows = append(t.rows, r)
	if len(t.rows) < sampleRows {
		return nil
	}
	return t.Flush()
}

// Flush writes the buffered rows. A table without rows has no header either.
func (t *TableWriter) Flush() error {
	if len(t.rows) == 0 {
		return nil
	}
	for _, row := range t.rows {
		for i, cell := range row.cells {
			t.widths[i] = max(t.widths[i], ansi.StringWidth(cell))
		}
	}
	if !t.started {
		t.started = true
		titles := make([]string, len(t.columns))
		for i, c := range t.columns {
			titles[i] = c.Title
		}
		if err := t.line(row{cells: titles}, true); err != nil {
			return err
		}
	}
	for _, row := range t.rows {
		if err := t.line(row, false); err != nil {
			return err
		}
	}
	t.rows = nil
	return nil
}

// SetMinWidth sets the minimum width of a column. Use it for tables that are flushed after
// each row.
func (t *TableWriter) SetMinWidth(column, width int) { t.widths[column] = max(t.widths[column], width) }

func (t *TableWriter) line(r row, header bool) error {
	var b strings.Builder
	used := 0
	for i, cell := range r.cells {
		last := i == len(r.cells)-1
		if i > 0 {
			b.WriteString(gap)
			used += len(gap)
		}
		if last && t.width > 0 && !t.columns[i].Whole {
			cell = ansi.Truncate(cell, max(t.width-used, minLastWidth), "…")
		}
		fill := strings.Repeat(" ", max(0, t.widths[i]-ansi.StringWidth(cell)))
		style := t.columns[i].Style
		if header {
			style = Bold
		} else if i == 0 && r.first != nil {
			style = r.first
		}
		if shown := style.Styled(cell); t.columns[i].Right {
			b.WriteString(fill + shown)
		} else if last {
			b.WriteString(shown)
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
