package watch

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// crowd adds watches. The end of each calls the function.
func crowd(t *testing.T, r *Registry, count int, end func(i int)) (all []*Entry) {
	t.Helper()
	for i := range count {
		e := &Entry{}
		if err := r.add(e, func(error) { end(i) }); err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
	return all
}

func TestWatchesEndEvenlyOverThePeriod(t *testing.T) {
	const count, period = 1000, 20 * time.Second
	synctest.Test(t, func(t *testing.T) {
		d := newRegistry()
		began := time.Now()
		tenths := map[time.Duration]int{}
		last := -1
		// Those that do not end, because their clients do not read, do not hold
		// up the others.
		crowd(t, d, count, func(i int) {
			tenths[time.Since(began)*10/(period/2)]++ // of the half that a thousand need
			if i != last+1 {
				t.Errorf("watch %d ends after watch %d", i, last)
			}
			last = i
		})
		d.spread(t.Context(), period)
		for tenth := range time.Duration(10) {
			// At the edge of a tenth it may be one more or less.
			if n := tenths[tenth]; n < count/10-1 || n > count/10+1 {
				t.Errorf("%d of %d watches end in tenth %d, want a tenth", n, count, tenth)
			}
		}
		if d.add(&Entry{}, nil) == nil {
			t.Error("a new watch is taken")
		}
	})
}

// Few watches need no time, and none needs none.
func TestDrainingFewTakesNoTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for count, most := range map[int]time.Duration{0: 0, 1: drainGap, 10: 10 * drainGap} {
			d := newRegistry()
			ended := 0
			crowd(t, d, count, func(int) { ended++ })
			began := time.Now()
			d.spread(t.Context(), time.Hour)
			if took := time.Since(began); took > most || ended != count {
				t.Errorf("%d of %d watches were ended in %v, want at most %v", ended, count, took, most)
			}
		}
	})
}

// When all have left for other reasons, nobody waits for the end of the period. When
// the server must not wait any longer, it does not either.
func TestDrainingEndsEarly(t *testing.T) {
	for name, stop := range map[string]func(leave []func(), cancel func()){
		"nobody is left": func(leave []func(), _ func()) {
			for _, l := range leave {
				l()
			}
		},
		"no time is left": func(_ []func(), cancel func()) { cancel() },
	} {
		synctest.Test(t, func(t *testing.T) {
			d := newRegistry()
			var ended atomic.Int64
			var leave []func()
			for _, e := range crowd(t, d, 1000, func(int) { ended.Add(1) }) {
				leave = append(leave, func() { d.remove(e) })
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			time.AfterFunc(time.Second, func() { stop(leave, cancel) })
			began := time.Now()
			d.spread(ctx, 10*time.Second)
			if took := time.Since(began); took != time.Second || ended.Load() == 1000 {
				t.Errorf("%s: it took %v, and %d were ended", name, took, ended.Load())
			}
		})
	}
}
