package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/fanoutd/fanoutd/internal/ctl/output"

	"github.com/fanoutd/fanoutd/bench/internal/scenario"
)

// column is a column of the table.
type column struct {
	title string
	right bool
	cell  func(g *Group, floor *Group) string
}

var columns = []column{
	{"CASE", false, func(g, _ *Group) string { return Case(g.Parameters) }},
	{"PEER", false, func(g, _ *Group) string { return Who(g.Parameters) }},
	{"RUNS", true, func(g, _ *Group) string { return fmt.Sprint(len(g.Records)) }},
	{"CPU µs", true, func(g, _ *Group) string { return number(g.Range(CPU).Median) }},
	{"OF IT FRONT", true, func(g, _ *Group) string { return spread(g.Range(FrontCPU)) }},
	{"x FLOOR", true, func(g, floor *Group) string {
		if floor == nil {
			return ""
		}
		return fmt.Sprintf("%.2f", g.Range(FrontCPU).Median/floor.Range(FrontCPU).Median)
	}},
	{"PER SECOND", true, func(g, _ *Group) string { return number(g.Range(PerSecond).Median) }},
	{"P50", true, of(EachP50)},
	{"P99", true, of(EachP99)},
	{"P99.9", true, of(EachP999)},
	{"MAX", true, of(EachMax)},
	{"LAST P50", true, of(LastP50)},
	{"LAST P99", true, of(LastP99)},
	{"ACK P50", true, of(AckP50)},
	{"ACK P99", true, of(AckP99)},
	{"WRITES", true, func(g, _ *Group) string { return number(g.Range(Writes).Median) }},
	{"BYTES", true, func(g, _ *Group) string { return number(g.Range(Bytes).Median) }},
	{"kB/IDLE", true, func(g, _ *Group) string { return number(g.Range(Memory).Median / 1000) }},
	{"WRONG", false, func(g, _ *Group) string { return g.Wrong() }},
}

// Table writes a table of what was measured. CPU, writes and bytes are per delivery,
// times in milliseconds.
func Table(w io.Writer, width int, groups []*Group) error {
	var titles []output.Column
	for _, c := range columns {
		titles = append(titles, output.Column{Title: c.title, Right: c.right})
	}
	table := output.NewColumns(w, width, titles...)
	for _, g := range groups {
		var cells []string
		floor := floorOf(g, groups)
		for _, c := range columns {
			cells = append(cells, c.cell(g, floor))
		}
		if err := table.Row(cells...); err != nil {
			return fmt.Errorf("write the table: %w", err)
		}
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("write the table: %w", err)
	}
	return nil
}

// floorOf returns what the floor has measured in the same case, or nil.
func floorOf(g *Group, groups []*Group) *Group {
	for _, f := range groups {
		if f.Parameters.Peer == "floor" && Case(f.Parameters) == Case(g.Parameters) {
			return f
		}
	}
	return nil
}

// Case says what was done, without saying with whom.
func Case(p scenario.Parameters) string {
	text := fmt.Sprintf("%d x %d", p.Watchers, p.PerConnection)
	if p.Batch > 1 {
		text += fmt.Sprintf(", bursts of %d", p.Batch)
	}
	if p.Rate > 0 {
		text += fmt.Sprintf(", %v/s", p.Rate)
	} else if p.Outstanding > 1 {
		text += fmt.Sprintf(", %d at once", p.Outstanding)
	}
	if p.ValueSize != 256 {
		text += fmt.Sprintf(", %d B", p.ValueSize)
	}
	if p.Interest != "all" {
		text += ", one " + p.Interest + " each"
	}
	return text
}

// Who says what was measured, and with which client.
func Who(p scenario.Parameters) string {
	var parts []string
	if p.Client != "raw" {
		parts = append(parts, p.Client)
	}
	if p.PerStream > 1 {
		parts = append(parts, fmt.Sprintf("%d a stream", p.PerStream))
	}
	if len(parts) == 0 {
		return p.Peer
	}
	return fmt.Sprintf("%s (%s)", p.Peer, strings.Join(parts, ", "))
}

// of returns a cell with the median of a time, in milliseconds.
func of(f Figure) func(g, _ *Group) string {
	return func(g, _ *Group) string { return number(g.Range(f).Median / 1000) }
}

// number shows a figure with the digits that mean something.
func number(x float64) string {
	switch {
	case x >= 1e6:
		return fmt.Sprintf("%.2f M", x/1e6)
	case x >= 1e4:
		return fmt.Sprintf("%.0f k", x/1e3)
	case x >= 100:
		return fmt.Sprintf("%.0f", x)
	case x >= 10:
		return fmt.Sprintf("%.1f", x)
	case x >= 1:
		return fmt.Sprintf("%.2f", x)
	}
	return fmt.Sprintf("%.3f", x)
}

func spread(r Range) string {
	if r.Least == r.Most {
		return number(r.Median)
	}
	return fmt.Sprintf("%s (%s-%s)", number(r.Median), number(r.Least), number(r.Most))
}
