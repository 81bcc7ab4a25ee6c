package top

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fanoutd/fanoutd/internal/ctl/admin"
)

func snapshot(resources, watchers int) *Snapshot {
	s := &Snapshot{at: time.Unix(100, 0), rate: -1, watchers: admin.WatcherList{Total: int64(watchers)}}
	for i := range resources {
		s.resources = append(s.resources, admin.Resource{Name: fmt.Sprint("resource-", i, "-")})
	}
	for i := range watchers {
		s.watchers.Watchers = append(s.watchers.Watchers, admin.Watcher{ID: fmt.Sprint("watcher-", i, "-"), Bytes: 100})
	}
	return s
}

// The title is always visible, both tables have rows if there is room for both, and no line
// is wasted.
func TestScreenFits(t *testing.T) {
	for _, resources := range []int{1, 5, 100} {
		for _, watchers := range []int{0, 1, 5, 1000} {
			for _, height := range []int{3, 4, 5, 8, 23, 60} {
				text := Screen{{Server: "a:1", Value: snapshot(resources, watchers)}}.View(80, height)
				lines, full := strings.Count(text, "\n"), 3+resources
				if watchers > 0 {
					full += 2 + watchers
				}
				least := min(full, height)
				if height < 8 {
					least = 0 // no room for both tables
				}
				if lines > height || lines < least {
					t.Errorf("%d resources, %d watchers: got %d lines, want %d to %d", resources, watchers, lines, least, height)
				}
				if height >= 8 && (resources > 0 && !strings.Contains(text, "resource-0-") || watchers > 0 && !strings.Contains(text, "watcher-0-")) {
					t.Errorf("%d resources and %d watchers in %d lines:\n%s", resources, watchers, height, text)
				}
			}
		}
	}
}

// The title counts a watcher as behind also if only a minimum of its lag is known, and that
// minimum is 0.
func TestTitleCountsWatchersThatAreBehind(t *testing.T) {
	s := snapshot(1, 4)
	s.watchers.Watchers[0].Lag = new(0.0)
	s.watchers.Watchers[1].Lag, s.watchers.Watchers[1].LagIsMin = new(0.0), true
	s.watchers.Watchers[2].Lag = new(3.0)
	if text := (Screen{{Server: "a:1", Value: s}}).View(80, 0); !strings.Contains(text, "4 watchers, 2 behind, 0 blocked") {
		t.Errorf("got title %q, want 2 of 4 behind", strings.SplitN(text, "\n", 2)[0])
	}
}

// Subscribers that have reported an error are counted. The error is shown if there is room.
func TestReportedErrorsAreShown(t *testing.T) {
	s := snapshot(1, 2)
	s.watchers.Failing = 1
	s.watchers.Watchers[1].Error = &admin.ReportedError{Code: "InvalidArgument", Message: "bad rps"}
	for width, wide := range map[int]bool{0: true, 80: false, 159: false, 160: true} {
		text := Screen{{Server: "a:1", Value: s}}.View(width, 0)
		if !strings.Contains(text, ", 0 blocked, 1 failed") || !strings.Contains(text, " failed ") || strings.Contains(text, "bad rps") != wide {
			t.Errorf("width %d:\n%s", width, text)
		}
	}
}

// The rate is shown only if it is known for all servers, and that requires complete lists
// of watchers.
func TestRateNeedsAllWatchers(t *testing.T) {
	for name, c := range map[string]struct {
		change func(before, now *Snapshot)
		rate   float64
		shown  bool
	}{
		"one more":       {func(_, _ *Snapshot) {}, 10, true},
		"not all before": {func(before, _ *Snapshot) { before.watchers.Total++ }, -1, false},
		"not all now":    {func(_, now *Snapshot) { now.watchers.Total++ }, -1, false},
	} {
		before, now := snapshot(1, 3), snapshot(1, 4)
		now.at = before.at.Add(10 * time.Second)
		c.change(before, now)
		now.setRate(before)
		if now.rate != c.rate {
			t.Errorf("%s: got rate %v, want %v", name, now.rate, c.rate)
		}
		other := snapshot(1, 1)
		other.rate = 20
		text := Screen{{Server: "a:1", Value: now}, {Server: "b:1", Value: other}}.View(80, 0)
		if strings.Contains(text, "30 B/s sent") != c.shown || strings.Contains(text, "sent") != c.shown {
			t.Errorf("%s:\n%s", name, text)
		}
	}
}

// When the only server fails, its last snapshot stays on the screen. When one of several
// fails, its snapshot is dropped.
func TestFailedServersOnScreen(t *testing.T) {
	for _, servers := range []int{1, 2} {
		s := make(Screen, servers)
		for i := range s {
			s[i].Server = fmt.Sprint("server-", i)
			s.update(result{i, snapshot(1, 2), nil})
		}
		s.update(result{0, nil, fmt.Errorf("away")})
		if got := len(s.snapshots()); got != 1 || s[0].Err == nil {
			t.Errorf("%d servers, one failed: got %d snapshots, want 1", servers, got)
		}
		if text := s.View(80, 0); strings.Contains(text, "1 of 2 servers") != (servers == 2) || strings.Contains(text, "server-0") != (servers == 1) {
			t.Errorf("%d servers, one failed:\n%s", servers, text)
		}
		s.update(result{0, snapshot(1, 2), nil})
		if got := len(s.snapshots()); got != servers || s[0].Err != nil {
			t.Errorf("%d servers: got %d snapshots", servers, got)
		}
	}
}
