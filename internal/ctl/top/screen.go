// Package top shows, again and again, how the resources of a server do and who
// watches them, those that are furthest behind first.
package top

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"golang.org/x/sync/errgroup"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/ctl/admin"
	"github.com/fanoutd/fanoutd/internal/ctl/output"
)

// Source is where the numbers come from.
type Source struct {
	Admin  *admin.Admin
	Server string // for the title
	// Answered is the address of the server that has answered, "" if it has none.
	Answered func() string
	// Explain says what an error means, on one line.
	Explain func(error) string
}

// Screen is how the server does at a moment.
type Screen struct {
	server    string
	at        time.Time
	resources []admin.Resource
	watchers  []admin.Watcher
	total     int64
	rate      float64 // bytes per second to all watchers; negative if not known
}

// Look asks the server.
func (s Source) Look(ctx context.Context) (*Screen, error) {
	screen := &Screen{rate: -1}
	var resources []*fanoutv1.ResourceStatus
	var watchers []*fanoutv1.WatcherStatus
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		resources, err = s.Admin.Resources(ctx, true)
		return err
	})
	group.Go(func() (err error) {
		watchers, screen.total, err = s.Admin.Watchers(ctx, "", true)
		return err
	})
	if err := group.Wait(); err != nil {
		return nil, err
	}
	screen.at, screen.server = time.Now(), s.Server
	if address := s.Answered(); address != "" && address != s.Server {
		screen.server += " (" + address + ")"
	}
	for _, r := range resources {
		screen.resources = append(screen.resources, admin.ResourceOf(r))
	}
	for _, w := range watchers {
		screen.watchers = append(screen.watchers, admin.WatcherOf(w))
	}
	return screen, nil
}

// since compares with what was seen before. Who is new has begun since: that is known
// only if all were seen, of the same server.
func (s *Screen) since(before *Screen) {
	if before == nil || !s.at.After(before.at) || before.server != s.server || !before.hasAll() || !s.hasAll() {
		return
	}
	sent := map[string]int64{}
	for _, w := range before.watchers {
		sent[w.ID] = w.Bytes
	}
	var bytes int64
	for _, w := range s.watchers {
		bytes += w.Bytes - sent[w.ID]
	}
	s.rate = float64(bytes) / s.at.Sub(before.at).Seconds()
}

// hasAll reports whether these are all watchers, and not just those furthest behind.
func (s *Screen) hasAll() bool { return int64(len(s.watchers)) >= s.total }

// View shows it in so many columns and lines; without limits where these are 0.
func (s *Screen) View(width, height int) string {
	var b strings.Builder
	behind, blocked := 0, 0
	for _, w := range s.watchers {
		if w.Lag != nil && *w.Lag > 0 {
			behind++
		}
		if w.Blocked {
			blocked++
		}
	}
	fmt.Fprintf(&b, "%s  %s   %d watchers, %d behind, %d blocked", output.Bold.Styled(s.server), s.at.Format(time.TimeOnly), s.total, behind, blocked)
	if s.rate >= 0 {
		fmt.Fprintf(&b, "   %s/s sent", humanize.IBytes(uint64(max(0, s.rate))))
	}
	b.WriteString("\n\n")
	resources, watchers := s.resources, s.watchers
	if height > 0 {
		r, w := share(height-2, len(resources), len(watchers))
		resources, watchers = resources[:r], watchers[:w]
	}
	// Nothing goes wrong with writing into a builder.
	_ = output.Records(&b, output.Table, width, admin.ResourceColumns(), resources, admin.Resource.Cells)
	if len(watchers) > 0 {
		b.WriteString("\n")
		_ = output.Records(&b, output.Table, width, admin.WatcherColumns(), watchers, admin.Watcher.Cells)
	}
	return b.String()
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
