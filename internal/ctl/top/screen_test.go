package top

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fanoutd/fanoutd/internal/ctl/admin"
)

func look(resources, watchers int) *Look {
	l := &Look{at: time.Unix(100, 0), rate: -1, watching: admin.Watching{Total: int64(watchers)}}
	for i := range resources {
		l.resources = append(l.resources, admin.Resource{Name: fmt.Sprint("resource-", i, "-")})
	}
	for i := range watchers {
		l.watching.Watchers = append(l.watching.Watchers, admin.Watcher{ID: fmt.Sprint("watcher-", i, "-"), Bytes: 100})
	}
	return l
}

// Whatever there is, the title stays in sight, some of both is there, and no line is
// wasted.
func TestScreenFits(t *testing.T) {
	for _, resources := range []int{1, 5, 100} {
		for _, watchers := range []int{0, 1, 5, 1000} {
			for _, height := range []int{3, 4, 5, 8, 23, 60} {
				text := Screen{{Server: "a:1", Value: look(resources, watchers)}}.View(80, height)
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

// How much was sent is known only if nobody is left out, and only if it is known of all
// servers.
func TestRateIsOfAllWatchers(t *testing.T) {
	for name, c := range map[string]struct {
		change func(before, now *Look)
		rate   float64
		shown  bool
	}{
		"one more":       {func(_, _ *Look) {}, 10, true},
		"not all before": {func(before, _ *Look) { before.watching.Total++ }, -1, false},
		"not all now":    {func(_, now *Look) { now.watching.Total++ }, -1, false},
	} {
		before, now := look(1, 3), look(1, 4)
		now.at = before.at.Add(10 * time.Second)
		c.change(before, now)
		now.since(before)
		if now.rate != c.rate {
			t.Errorf("%s: %v", name, now.rate)
		}
		other := look(1, 1)
		other.rate = 20
		text := Screen{{Server: "a:1", Value: now}, {Server: "b:1", Value: other}}.View(80, 0)
		if strings.Contains(text, "30 B/s sent") != c.shown || strings.Contains(text, "sent") != c.shown {
			t.Errorf("%s:\n%s", name, text)
		}
	}
}

// What is left of a server that does not answer any more: everything if there is no
// other, so that one sees what it was like, and nothing beside what others have now.
func TestScreenOfServersThatFail(t *testing.T) {
	for _, servers := range []int{1, 2} {
		s := make(Screen, servers)
		for i := range s {
			s[i].Server = fmt.Sprint("server-", i)
			s.note(looked{i, look(1, 2), nil})
		}
		s.note(looked{0, nil, fmt.Errorf("away")})
		if got := len(s.answered()); got != 1 || s[0].Err == nil {
			t.Errorf("of %d servers %d are shown", servers, got)
		}
		if text := s.View(80, 0); strings.Contains(text, "1 of 2 servers") != (servers == 2) || strings.Contains(text, "server-0") != (servers == 1) {
			t.Errorf("of %d servers:\n%s", servers, text)
		}
		s.note(looked{0, look(1, 2), nil})
		if got := len(s.answered()); got != servers || s[0].Err != nil {
			t.Errorf("of %d servers %d are shown", servers, got)
		}
	}
}
