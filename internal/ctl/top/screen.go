// Package top shows, again and again, how the resources of some servers do and who
// watches them, those that are furthest behind first.
package top

import (
	"context"
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

// Look is how a server does at a moment.
type Look struct {
	at        time.Time
	resources []admin.Resource
	watching  admin.Watching
	rate      float64 // bytes per second to all watchers; negative if not known
}

// Ask asks a server.
func Ask(ctx context.Context, server *admin.Admin) (*Look, error) {
	look := &Look{rate: -1}
	var err error
	if look.resources, err = server.Resources(ctx, true); err != nil {
		return nil, err
	}
	if look.watching, err = server.Watchers(ctx, "", true); err != nil {
		return nil, err
	}
	look.at = time.Now()
	return look, nil
}

// since compares with what was seen of the same server before. Who is new has begun
// since: that is known only if all were seen.
func (l *Look) since(before *Look) {
	if before == nil || !l.at.After(before.at) || !before.hasAll() || !l.hasAll() {
		return
	}
	sent := map[string]int64{}
	for _, w := range before.watching.Watchers {
		sent[w.ID] = w.Bytes
	}
	var bytes int64
	for _, w := range l.watching.Watchers {
		bytes += w.Bytes - sent[w.ID]
	}
	l.rate = float64(bytes) / l.at.Sub(before.at).Seconds()
}

// hasAll reports whether these are all watchers, and not just those furthest behind.
func (l *Look) hasAll() bool { return int64(len(l.watching.Watchers)) >= l.watching.Total }
