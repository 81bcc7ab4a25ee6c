package registry

import (
	"testing"
	"time"
)

// Watches that begin together end at different times, between four fifths of the limit and the
// limit.
func TestTimeLimitsAreSpread(t *testing.T) {
	const limit, draws = 100 * time.Second, 10_000
	tenths := map[time.Duration]int{} // of the last fifth
	for range draws {
		got := randomLimit(limit)
		if got < limit*4/5 || got > limit {
			t.Fatalf("got limit %v, want 80 to 100 percent of %v", got, limit)
		}
		tenths[min((got-limit*4/5)/(limit/50), 9)]++
	}
	for i := range time.Duration(10) {
		// A uniform distribution misses these bounds less than once in 10^20 runs.
		if n := tenths[i]; n < 700 || n > 1300 {
			t.Errorf("got %d of %d limits in tenth %d of the last fifth, want about %d", n, draws, i, draws/10)
		}
	}
	if got := randomLimit(0); got != 0 {
		t.Errorf("got %v without a limit, want 0", got)
	}
	for _, tiny := range []time.Duration{1, 2, 4, 5} {
		if got := randomLimit(tiny); got <= 0 || got > tiny {
			t.Errorf("got %v for a limit of %v", got, tiny)
		}
	}
}

func TestShorterLimitApplies(t *testing.T) {
	for _, c := range []struct{ a, b, want time.Duration }{
		{0, 0, 0},
		{0, 3, 3},
		{3, 0, 3},
		{2, 3, 2},
		{3, 2, 2},
	} {
		if got := Shorter(c.a, c.b); got != c.want {
			t.Errorf("Shorter(%v, %v): got %v, want %v", c.a, c.b, got, c.want)
		}
	}
}
