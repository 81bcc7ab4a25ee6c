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
	screen := &Screen{server: s.Server, rate: -1}
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
	screen.at = time.Now()
	for _, r := range resources {
		screen.resources = append(screen.resources, admin.ResourceOf(r))
	}
	for _, w := range watchers {
		screen.watchers = append(screen.watchers, admin.WatcherOf(w))
	}
	return screen, nil
}

// since compares with what was seen before.
func (s *Screen) since(before *Screen) {
	if before == nil || !s.at.After(before.at) {
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
	// Nothing goes wrong with writing into a builder.
	_ = output.Records(&b, output.Table, width, admin.ResourceColumns(), s.resources, admin.Resource.Cells)
	if len(s.watchers) > 0 {
		b.WriteString("\n")
		watchers := s.watchers
		if room := height - strings.Count(b.String(), "\n") - 1; height > 0 {
			watchers = watchers[:max(0, min(room, len(watchers)))]
		}
		_ = output.Records(&b, output.Table, width, admin.WatcherColumns(), watchers, admin.Watcher.Cells)
	}
	return b.String()
}
