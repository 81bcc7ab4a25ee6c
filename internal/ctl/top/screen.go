// Package top shows, again and again, how the resources of some servers do and who
// watches them, those that are furthest behind first.
package top

import (
	"fmt"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/fanoutd/fanoutd/internal/ctl/admin"
	"github.com/fanoutd/fanoutd/internal/ctl/output"
)

// Screen is what the servers have said last, in their order. One without a value has not
// answered.
type Screen []admin.Answer[*Look]

// answered returns the looks there are.
func (s Screen) answered() []*Look {
	var looks []*Look
	for _, a := range s {
		if a.Value != nil {
			looks = append(looks, a.Value)
		}
	}
	return looks
}

// View shows it in so many columns and lines; without limits where these are 0. At least
// one server has answered.
func (s Screen) View(width, height int) string {
	several := len(s) > 1
	var resources []admin.Answer[[]admin.Resource]
	var watching []admin.Answer[admin.Watching]
	for _, l := range s.answered() {
		resources = append(resources, admin.Answer[[]admin.Resource]{Value: l.resources})
		watching = append(watching, admin.Answer[admin.Watching]{Value: l.watching})
	}
	rows, merged := admin.MergeResources(resources), admin.MergeWatchers(watching, true)
	watchers := merged.Watchers

	var b strings.Builder
	b.WriteString(s.title(merged) + "\n\n")
	if height > 0 {
		r, w := share(height-2, len(rows), len(watchers))
		rows, watchers = rows[:r], watchers[:w]
	}
	// Nothing goes wrong with writing into a builder.
	columns, cells := admin.ResourceTable(several)
	_ = output.Records(&b, output.Table, width, columns, rows, cells)
	if len(watchers) > 0 {
		b.WriteString("\n")
		columns, cells := admin.WatcherTable(several)
		_ = output.Records(&b, output.Table, width, columns, watchers, cells)
	}
	return b.String()
}

// title is the first line.
func (s Screen) title(all admin.Watching) string {
	looks := s.answered()
	name := s[0].Server
	switch {
	case len(looks) < len(s):
		name = fmt.Sprintf("%d of %d servers", len(looks), len(s))
	case len(s) > 1:
		name = fmt.Sprintf("%d servers", len(s))
	}
	var at time.Time
	rate, known := 0.0, true
	for _, l := range looks {
		if l.at.After(at) {
			at = l.at
		}
		rate += l.rate
		known = known && l.rate >= 0
	}
	behind, blocked := 0, 0
	for _, w := range all.Watchers {
		if w.Lag != nil && *w.Lag > 0 {
			behind++
		}
		if w.Blocked {
			blocked++
		}
	}
	text := fmt.Sprintf("%s  %s   %d watchers, %d behind, %d blocked", output.Bold.Styled(name), at.Format(time.TimeOnly), all.Total, behind, blocked)
	if known {
		text += fmt.Sprintf("   %s/s sent", humanize.IBytes(uint64(max(0, rate))))
	}
	return text
}

// share says how many resources and watchers have room in so many lines. Each table
// has a header, and between them is an empty line. Watchers have what resources do not
// need, and at least a third.
func share(lines, resources, watchers int) (r, w int) {
	lines-- // the header of resources
	w = min(watchers, max(0, lines-2)/3)
	if w == 0 {
		return max(0, min(resources, lines)), 0
	}
	lines -= 2
	r = min(resources, lines-w)
	return r, min(watchers, lines-r)
}
