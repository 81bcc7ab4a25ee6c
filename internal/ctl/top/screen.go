// Package top shows the resources and watchers of some servers, the watchers that are
// furthest behind first, and refreshes them on a terminal.
//
// A [Snapshot] is the state of one server. A [Screen] holds the last snapshot of each server
// and formats them. A [Program] takes snapshots of all servers periodically and draws the
// screen on a terminal.
package top

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"

	"github.com/fanoutd/fanoutd/internal/ctl/admin"
	"github.com/fanoutd/fanoutd/internal/ctl/output"
)

// Screen is the last answer of each server. The value of a server that has not answered is
// nil.
type Screen []admin.Answer[*Snapshot]

// snapshots returns the snapshots of the servers that have answered.
func (s Screen) snapshots() []*Snapshot {
	var all []*Snapshot
	for _, a := range s {
		if a.Value != nil {
			all = append(all, a.Value)
		}
	}
	return all
}

// wideScreen is the width from which the table of watchers has all columns.
const wideScreen = 160

// View formats the screen within a width and a height; 0 means no limit. At least one server
// must have answered.
func (s Screen) View(width, height int) string { return s.view(&controls{}, width, height) }

// view is View with what the user has chosen.
func (s Screen) view(chosen *controls, width, height int) string {
	several := len(s) > 1
	var resources []admin.Answer[[]admin.Resource]
	var lists []admin.Answer[admin.WatcherList]
	for _, snapshot := range s.snapshots() {
		resources = append(resources, admin.Answer[[]admin.Resource]{Value: snapshot.resources})
		lists = append(lists, admin.Answer[admin.WatcherList]{Value: snapshot.watchers})
	}
	rows, merged := admin.MergeResources(resources), admin.MergeWatchers(lists, true)
	columns := admin.WatcherColumns(several, width == 0 || width >= wideScreen)
	watchers := chosen.selected(merged.Watchers, columns)

	var b strings.Builder
	b.WriteString(s.title(merged) + "\n\n")
	if height > 0 {
		r, w := divide(height-2, len(rows), len(watchers))
		rows, watchers = visible(chosen, resourceTable, rows, r), visible(chosen, watcherTable, watchers, w)
	}
	writeTable(&b, width, admin.ResourceColumns(several), rows, lesserResourceColumns)
	if len(watchers) > 0 {
		b.WriteString("\n")
		writeTable(&b, width, columns, watchers, lesserWatcherColumns)
	}
	return b.String()
}

// writeTable writes a table that fits into the width.
func writeTable[T any](b *strings.Builder, width int, columns []output.Column[T], rows []T, lesser []string) {
	columns = fit(columns, rows, width, lesser)
	for i := range columns {
		columns[i].Whole = false // a full screen has no room for lines that wrap
	}
	// Writing to a strings.Builder does not fail.
	_ = output.Records(output.Printer{W: b, Format: output.Table, Width: width}, columns, rows)
}

// title returns the first line.
func (s Screen) title(all admin.WatcherList) string {
	snapshots := s.snapshots()
	name := s[0].Server
	switch {
	case len(snapshots) < len(s):
		name = fmt.Sprintf("%d of %d servers", len(snapshots), len(s))
	case len(s) > 1:
		name = fmt.Sprintf("%d servers", len(s))
	}
	var at time.Time
	rate, known := 0.0, true
	for _, snapshot := range snapshots {
		if snapshot.at.After(at) {
			at = snapshot.at
		}
		rate += snapshot.rate
		known = known && snapshot.rate >= 0
	}
	behind, blocked := 0, 0
	for _, w := range all.Watchers {
		if w.IsBehind() {
			behind++
		}
		if w.Blocked {
			blocked++
		}
	}
	text := fmt.Sprintf("%s  %s   %s, %d behind, %d blocked", output.Bold.Styled(name), at.Format(time.TimeOnly), english.Plural(int(all.Total), "watcher", ""), behind, blocked)
	if all.Failing > 0 {
		text += fmt.Sprintf(", %d failed", all.Failing)
	}
	if known {
		text += fmt.Sprintf("   %s/s sent", output.Size(int64(max(0, rate))))
	}
	return text
}

// divide returns how many resources and watchers fit into the lines. Each table has a
// header, and an empty line separates them. Watchers get the lines that resources do not
// need, and at least a third.
func divide(lines, resources, watchers int) (r, w int) {
	lines-- // the header of the resources
	w = min(watchers, max(0, lines-2)/3)
	if w == 0 {
		return max(0, min(resources, lines)), 0
	}
	lines -= 2
	r = min(resources, lines-w)
	return r, min(watchers, lines-r)
}

// Snapshot is the state of a server at one moment.
type Snapshot struct {
	at        time.Time
	resources []admin.Resource
	watchers  admin.WatcherList
	rate      float64 // bytes per second sent to all watchers; negative if unknown
}

// TakeSnapshot queries a server.
func TakeSnapshot(ctx context.Context, server *admin.Admin) (*Snapshot, error) {
	s := &Snapshot{rate: -1}
	var err error
	if s.resources, err = server.Resources(ctx, true); err != nil {
		return nil, err
	}
	if s.watchers, err = server.Watchers(ctx, "", true, false); err != nil {
		return nil, err
	}
	s.at = time.Now()
	return s, nil
}

// setRate computes the rate since an earlier snapshot of the same server. It needs both lists
// to be complete: otherwise a watcher that is missing from the earlier one may be old.
func (s *Snapshot) setRate(before *Snapshot) {
	if before == nil || !s.at.After(before.at) || !before.isComplete() || !s.isComplete() {
		return
	}
	sent := map[string]int64{}
	for _, w := range before.watchers.Watchers {
		sent[w.ID] = w.Bytes
	}
	var bytes int64
	for _, w := range s.watchers.Watchers {
		bytes += w.Bytes - sent[w.ID]
	}
	s.rate = float64(bytes) / s.at.Sub(before.at).Seconds()
}

// isComplete reports whether the list contains all watchers, not only those furthest behind.
func (s *Snapshot) isComplete() bool { return int64(len(s.watchers.Watchers)) >= s.watchers.Total }
