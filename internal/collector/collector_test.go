package collector

import (
	"context"
	"runtime/debug"
	"testing"
	"testing/synctest"
	"time"
)

// The heap grows little if it is large and little is allocated, and as far as Go's default lets it
// otherwise.
func TestGrowthFollowsTheHeapAndItsUse(t *testing.T) {
	const mib = 1 << 20
	for _, tc := range []struct {
		name     string
		live     uint64  // MiB
		rate     uint64  // MiB/s
		collects float64 // seconds of CPU of one collection
		want     int
	}{
		{"small", 20, 1, 0.02, maxPercent},
		{"small and busy", 15, 280, 0.012, 370},
		{"small and very busy", 16, 2800, 0.012, 400},
		{"some", 64, 1, 0.05, 50},
		{"large and idle", 400, 0, 0.5, minPercent},
		{"large and read", 400, 5, 0.5, minPercent},
		{"large and written", 400, 20, 0.5, 40},
		{"large, and a burst", 400, 200, 0.5, maxPercent},
		{"huge and written", 4000, 20, 5, 40},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var g target
			before := reading{at: time.Unix(0, 0), processors: 2}
			now := reading{
				at: time.Unix(1, 0), live: tc.live * mib, allocated: tc.rate * mib, cycles: 2, cpu: 2 * tc.collects, processors: 2,
			}
			if got := g.percent(before, now); got != tc.want {
				t.Errorf("got %d %%, want %d %%", got, tc.want)
			}
		})
	}
}

func TestGrowthAfterABurst(t *testing.T) {
	var g target
	r := reading{at: time.Unix(0, 0), live: 400 << 20, processors: 2}
	next := func(allocated, collections uint64) int {
		before := r
		r.at = r.at.Add(time.Second)
		r.allocated += allocated
		r.cycles += collections
		r.cpu += 0.5 * float64(collections)
		return g.percent(before, r)
	}
	if got := next(500<<20, 1); got != maxPercent {
		t.Errorf("in a burst: got %d %%, want %d %%", got, maxPercent)
	}
	// Nothing is allocated any more, so no collection reports what it costs.
	last := maxPercent
	for range 15 {
		got := next(0, 0)
		if got > last {
			t.Errorf("after the burst: got %d %% after %d %%", got, last)
		}
		last = got
	}
	if last != minPercent {
		t.Errorf("long after the burst: got %d %%, want %d %%", last, minPercent)
	}
}

// To return memory needs a collection, whose cost depends on what is live and not on how much is returned.
func TestMemoryIsReturnedSeldomFromALargeHeap(t *testing.T) {
	for _, test := range []struct {
		live uint64
		want time.Duration
	}{
		{100 << 20, releaseInterval},
		{64 << 30, 17 * time.Minute}, // a collection takes a minute of one of two processors
	} {
		g := target{costPerByte: 1e-9}
		got := g.pause(reading{live: test.live, processors: 2}).Truncate(time.Minute)
		if share := float64(test.live) * g.costPerByte / 2 / got.Seconds(); got < test.want || share > 1.1*maxShare {
			t.Errorf("%d live bytes: got %v, which takes %.3f of the processors", test.live, got, share)
		}
	}
}

func TestRunRestoresTheSetting(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(77))
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*interval)
		defer cancel()
		Run(ctx)
	})
	if got := debug.SetGCPercent(77); got != 77 {
		t.Errorf("got %d %%, want the previous setting", got)
	}
}
