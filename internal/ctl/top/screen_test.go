package top

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fanoutd/fanoutd/internal/ctl/admin"
)

func screen(resources, watchers int) *Screen {
	s := &Screen{server: "a:1", at: time.Unix(100, 0), total: int64(watchers), rate: -1}
	for i := range resources {
		s.resources = append(s.resources, admin.Resource{Name: fmt.Sprint("resource-", i, "-")})
	}
	for i := range watchers {
		s.watchers = append(s.watchers, admin.Watcher{ID: fmt.Sprint("watcher-", i, "-"), Bytes: 100})
	}
	return s
}

// Whatever there is, the title stays in sight, some of both is there, and no line is
// wasted.
func TestScreenFits(t *testing.T) {
	for _, resources := range []int{1, 5, 100} {
		for _, watchers := range []int{0, 1, 5, 1000} {
			for _, height := range []int{3, 4, 5, 8, 23, 60} {
				text := screen(resources, watchers).View(80, height)
				lines, full := strings.Count(text, "\n"), 3+resources
				if watchers > 0 {
					full += 2 + watchers
				}
				least := min(full, height)
				if height < 8 {
					least = 0 // too little for both
				}
				if lines > height || lines < least {
					t.Errorf("%d resources and %d watchers have %d lines of %d", resources, watchers, lines, height)
				}
				if height >= 8 && (resources > 0 && !strings.Contains(text, "resource-0-") || watchers > 0 && !strings.Contains(text, "watcher-0-")) {
					t.Errorf("%d resources and %d watchers in %d lines:\n%s", resources, watchers, height, text)
				}
			}
		}
	}
}

// How much was sent is known only of the same server, and if nobody is left out.
func TestRateIsOfAllWatchers(t *testing.T) {
	for name, c := range map[string]struct {
		change func(before, now *Screen)
		rate   float64
	}{
		"one more":          {func(_, _ *Screen) {}, 10},
		"not all before":    {func(before, _ *Screen) { before.total++ }, -1},
		"not all now":       {func(_, now *Screen) { now.total++ }, -1},
		"of another server": {func(before, _ *Screen) { before.server = "b:1" }, -1},
	} {
		before, now := screen(1, 3), screen(1, 4)
		now.at = before.at.Add(10 * time.Second)
		c.change(before, now)
		now.since(before)
		if now.rate != c.rate {
			t.Errorf("%s: %v", name, now.rate)
		}
	}
}
