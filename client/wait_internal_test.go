package client

import (
	"testing"
	"time"
)

// The required number is the share of all watches without the failures that are tolerated,
// rounded up, and at least one.
func TestRequiredWatches(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		quorum                              float64
		tolerate, watches, failed, required int64
	}{
		{1, 0, 0, 0, 0},
		{1, 0, 5, 0, 5},
		{1, 0, 5, 2, 5},
		{1, 1, 5, 2, 4},
		{1, 9, 5, 5, 1},
		{0.99, 0, 100, 0, 99},
		{0.99, 0, 101, 0, 100},
		{0.07, 0, 100, 0, 7}, // 0.07 * 100 is a little more than 7
		{0.5, 2, 10, 2, 4},
		{0.001, 0, 5, 0, 1},
		{0.9999999, 0, 1_000_000, 0, 1_000_000},
	} {
		g := newGate(&WaitOptions{Quorum: c.quorum, Tolerate: c.tolerate})
		if got := g.required(c.watches, c.failed); got != c.required {
			t.Errorf("%+v: got %d", c, got)
		}
	}
}

// The peak is the largest value of the period, the one at its beginning included.
func TestRecentPeak(t *testing.T) {
	t.Parallel()
	p := recentPeak{period: 10 * time.Second}
	began := time.Unix(1000, 0)
	for _, c := range []struct {
		second  int
		set     int64 // negative: not at all
		max     int64
		fallsAt int // 0: never
	}{
		{0, 5, 5, 0},
		{1, 9, 9, 0},
		{2, 7, 9, 12},
		{3, 4, 9, 12},
		{4, 6, 9, 12}, // 7 counts until second 13, 4 not at all
		{12, -1, 7, 13},
		{13, -1, 6, 0},
		{50, -1, 6, 0},
		{51, 2, 6, 61},
		{52, 6, 6, 0},
		{53, 3, 6, 63},
		{54, 8, 8, 0},
	} {
		now := began.Add(time.Duration(c.second) * time.Second)
		if c.set >= 0 {
			p.set(now, c.set)
		}
		if got := p.max(now); got != c.max {
			t.Errorf("second %d: got %d, want %d", c.second, got, c.max)
		}
		at, falls := p.falls()
		if falls != (c.fallsAt > 0) || falls && at.Sub(began) != time.Duration(c.fallsAt)*time.Second {
			t.Errorf("second %d: falls at %v, %v, want second %d", c.second, at.Sub(began), falls, c.fallsAt)
		}
	}
}
