package top

import (
	"slices"

	"github.com/charmbracelet/x/ansi"

	"github.com/fanoutd/fanoutd/internal/ctl/output"
)

// The columns that a narrow screen leaves out, the least important ones first.
var (
	lesserResourceColumns = []string{"CODEC", "FILTERS", "REVISION", "WINDOW"}
	lesserWatcherColumns  = []string{"LABELS", "FAILED KEYS", "ERROR", "APPLIED REVISION", "SENT REVISION", "EVENTS", "PEER", "SENT", "AGE", "RESOURCE", "APPLIED"}
)

// minFilterWidth is the width that a narrow screen leaves for the last column.
const minFilterWidth = 12

// fit leaves out columns until the rows fit into the width; 0 means no limit. Without the column PEER,
// clients without a name are shown by their address.
func fit[T any](columns []output.Column[T], rows []T, width int, lesser []string) []output.Column[T] {
	for _, title := range lesser {
		if width == 0 || widthOf(columns, rows) <= width {
			break
		}
		i := slices.IndexFunc(columns, func(c output.Column[T]) bool { return c.Title == title })
		if i < 0 {
			continue
		}
		if title == "PEER" {
			instance, peer := columns[i-1].Cell, columns[i].Cell
			columns[i-1].Cell = func(row T) string {
				if name := instance(row); name != "-" {
					return name
				}
				return peer(row)
			}
		}
		columns = slices.Delete(columns, i, i+1)
	}
	return columns
}

// widthOf returns the width of a table. Its last column may be cut.
func widthOf[T any](columns []output.Column[T], rows []T) int {
	total := 0
	for i, c := range columns {
		width := ansi.StringWidth(c.Title)
		for _, row := range rows {
			width = max(width, ansi.StringWidth(c.Cell(row)))
		}
		if i == len(columns)-1 {
			width = min(width, minFilterWidth)
		} else {
			width += 2
		}
		total += width
	}
	return total
}
