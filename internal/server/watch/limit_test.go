package watch

import (
	"testing"
	"time"
)

// Watches that began together end at different times, and none of them before
// four fifths of the limit have passed, or after it.
func TestTimeLimitsAreSpread(t *testing.T) {
	const limit, draws = 100 * time.Second, 10_000
	tenths := map[time.Duration]int{} // of the last fifth
	for range draws {
		got := randomLimit(limit)
		if got < limit*4/5 || got > limit {
			t.Fatalf("a limit of %v, want 80 to 100 percent of %v", got, limit)
		}
		tenths[min((got-limit*4/5)/(limit/50), 9)]++
	}
	for i := range time.Duration(10) {
		// The chance of a fair tenth to be so far off is less than one in 10^20.
		if n := tenths[i]; n < 700 || n > 1300 {
			t.Errorf("%d of %d limits are in tenth %d of the last fifth, want about %d", n, draws, i, draws/10)
		}
	}
	if got := randomLimit(0); got != 0 {
		t.Errorf("without a limit a watch may last %v", got)
	}
	for _, tiny := range []time.Duration{1, 2, 4, 5} {
		if got := randomLimit(tiny); got <= 0 || got > tiny {
			t.Errorf("of a limit of %v %v is left", tiny, got)
		}
	}
}

func TestTheShorterLimitCounts(t *testing.T) {
	for _, c := range []struct{ a, b, want time.Duration }{
		{0, 0, 0},
		{0, 3, 3},
		{3, 0, 3},
		{2, 3, 2},
		{3, 2, 2},
	} {
		if got := shorter(c.a, c.b); got != c.want {
			t.Errorf("the shorter of %v and %v is %v, want %v; 0 is endless", c.a, c.b, got, c.want)
		}
	}
}
