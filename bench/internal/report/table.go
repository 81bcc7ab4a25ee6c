package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/fanoutd/fanoutd/internal/ctl/output"

	"github.com/fanoutd/fanoutd/bench/internal/scenario"
)

// Table writes tables of groups, one for each kind of scenario.
func Table(w io.Writer, width int, groups []*Group) error {
	for _, s := range sections(groups) {
		var columns []output.Column[[]string]
		for i, c := range s.columns {
			columns = append(columns, output.Column[[]string]{
				Title: strings.ToUpper(c.title), Cell: func(row []string) string { return row[i] }, Right: c.right,
			})
		}
		fmt.Fprintf(w, "%s\n", s.about)
		if err := output.Records(output.Printer{W: w, Format: output.Table, Width: width}, columns, s.rows()); err != nil {
			return fmt.Errorf("write the table: %w", err)
		}
		fmt.Fprintln(w)
	}
	return nil
}

// floorOf returns the group of the floor in the same case, or nil.
func floorOf(g *Group, groups []*Group) *Group {
	for _, f := range groups {
		if f.Parameters.Peer == "floor" && Case(f.Parameters) == Case(g.Parameters) {
			return f
		}
	}
	return nil
}

// Case describes the parameters of a run without the system.
func Case(p scenario.Parameters) string {
	text := action(p)
	if p.Bystanders > 0 {
		text += fmt.Sprintf(", beside %d (%s)", p.Bystanders, p.Bystand)
	}
	if p.Objects > 0 {
		text += fmt.Sprintf(", %d other objects", p.Objects)
	}
	if p.Window > 0 {
		text += fmt.Sprintf(", window of %d", p.Window)
	}
	if p.DefaultLimits {
		text += ", default limits"
	}
	if p.History {
		text += ", with history"
	}
	return text
}

// describe describes calls.
func describe(p scenario.Parameters) string {
	text := fmt.Sprintf("%s, %d at once", p.Method, p.Outstanding)
	if p.Keys == 1 {
		text += " to one key"
	}
	if p.ValueSize != 256 {
		text += fmt.Sprintf(", %d B", p.ValueSize)
	}
	return text
}

// action describes the work of a run without its surroundings.
func action(p scenario.Parameters) string {
	if p.Scenario == scenario.State {
		return fmt.Sprintf("%d objects of %d B", p.Keys, p.ValueSize)
	}
	if p.Scenario == scenario.Calls {
		return describe(p)
	}
	if p.Scenario == scenario.ClusterOutage {
		return fmt.Sprintf("%d writers, %d B, %s killed", p.Outstanding, p.ValueSize, p.Victim)
	}
	text := fmt.Sprintf("%d x %d", p.Watchers, p.PerConnection)
	if p.Watchers == 0 {
		text = "no watchers"
	}
	if p.Scenario == scenario.Lists {
		text = fmt.Sprintf("%d of %d objects of %d B", p.Watchers, p.Keys, p.ValueSize)
		if p.PageSize > 0 {
			text += fmt.Sprintf(" in pages of %d", p.PageSize)
		}
		return text
	}
	if p.Scenario == scenario.Startup || p.Scenario == scenario.Resume {
		objects := fmt.Sprintf("%d objects", p.Keys)
		if p.Keys == 1 {
			objects = "1 object"
		}
		return fmt.Sprintf("%s, %s of %d B", text, objects, p.ValueSize)
	}
	if p.Batch > 1 {
		text += fmt.Sprintf(", bursts of %d", p.Batch)
	}
	if p.Rate > 0 {
		text += fmt.Sprintf(", %v/s", p.Rate)
	} else if p.Scenario == scenario.ClusterLoad {
		text += ", idle"
	} else if p.Outstanding > 1 {
		text += fmt.Sprintf(", %d at once", p.Outstanding)
	}
	if p.Writes > 0 {
		text += fmt.Sprintf(", %d writes", p.Writes)
	}
	if p.ValueSize != 256 {
		text += fmt.Sprintf(", %d B", p.ValueSize)
	}
	if p.Stalled > 0 {
		text += fmt.Sprintf(", %d stalled (%s)", p.Stalled, p.Stall)
		if p.StallFor > 0 {
			text += fmt.Sprintf(" for %v", p.StallFor)
		}
	}
	if p.State {
		text += ", from the state"
	}
	if p.Bookmarks > 0 {
		text += fmt.Sprintf(", bookmarks every %v", p.Bookmarks)
	}
	if p.Reports > 0 {
		text += fmt.Sprintf(", reports every %v", p.Reports)
	}
	if p.Victim != "" {
		text += fmt.Sprintf(", %s killed", p.Victim)
	}
	switch p.Interest {
	case "all":
	case "except":
		text += fmt.Sprintf(", %d interests", p.Groups)
	default:
		text += ", one " + p.Interest + " each"
	}
	return text
}

// System returns the name of the system of a run, and the client if it is not raw.
func System(p scenario.Parameters) string {
	var parts []string
	if p.Client != "raw" {
		parts = append(parts, p.Client)
	}
	if p.PerStream > 0 {
		parts = append(parts, fmt.Sprintf("%d a stream", p.PerStream))
	}
	if len(parts) == 0 {
		return p.Peer
	}
	return fmt.Sprintf("%s (%s)", p.Peer, strings.Join(parts, ", "))
}

// number formats a figure with its significant digits.
func number(x float64) string {
	switch {
	case x == 0:
		return "0"
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
