package output

import (
	"io"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// Column is a column of a table.
type Column struct {
	Title string
	Right bool       // numbers stand at the right
	Style ansi.Style // of the cells
}

// sample is how many rows decide how wide columns are. Later rows that need more
// room push what is behind them to the right.
const sample = 200

// gap is between columns.
const gap = "  "

// narrowest is what is left of a last column in a terminal that is too narrow.
const narrowest = 8

// Columns writes a table as its rows come, without keeping more than the first of
// them. Not safe for concurrent use.
type Columns struct {
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

// NewColumns makes a table. Width is that of the terminal, beyond which the last
// column is cut; 0 means that nothing is cut.
func NewColumns(w io.Writer, width int, columns ...Column) *Columns {
	t := &Columns{w: w, width: width, columns: columns, widths: make([]int, len(columns))}
	for i, c := range columns {
		t.widths[i] = ansi.StringWidth(c.Title)
	}
	return t
}

// Row adds a row. Cells have no line breaks; control characters in them are shown
// as spaces, so that no value commands the terminal.
func (t *Columns) Row(cells ...string) error {
	return t.Styled(nil, cells...)
}

// Styled adds a row in which the first cell has a style of its own; nil means that
// of its column.
func (t *Columns) Styled(first ansi.Style, cells ...string) error {
	for i, cell := range cells {
		cells[i] = printable(cell)
	}
	r := row{first, cells}
	if t.started {
		return t.line(r, false)
	}
	t.rows = append(t.rows, r)
	if len(t.rows) < sample {
		return nil
	}
	return t.Flush()
}

// Flush writes the rows that were kept. A table without any is not shown at all.
func (t *Columns) Flush() error {
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

// Widen sets the least width of a column before the first row is shown, for tables
// whose rows come one by one.
func (t *Columns) Widen(column, width int) { t.widths[column] = max(t.widths[column], width) }

func (t *Columns) line(r row, header bool) error {
	var b strings.Builder
	used := 0
	for i, cell := range r.cells {
		last := i == len(r.cells)-1
		if i > 0 {
			b.WriteString(gap)
			used += len(gap)
		}
		if last && t.width > 0 {
			cell = ansi.Truncate(cell, max(t.width-used, narrowest), "…")
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

// printable replaces what a terminal would take for a command.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return ' '
		}
		return r
	}, s)
}

// The styles of fanoutctl.
var (
	Plain  = ansi.Style{}
	Bold   = ansi.Style{}.Bold()
	Faint  = ansi.Style{}.Faint()
	Good   = ansi.Style{}.ForegroundColor(ansi.Green)
	Notice = ansi.Style{}.ForegroundColor(ansi.Yellow)
	Bad    = ansi.Style{}.ForegroundColor(ansi.Red)
	Name   = ansi.Style{}.ForegroundColor(ansi.Cyan)
)
