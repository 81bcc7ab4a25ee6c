package watch

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// addWatches adds watches. Each calls the function when it ends.
func addWatches(t *testing.T, r *Registry, count int, end func(i int)) (all []*Entry) {
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
		r := newRegistry()
		began := time.Now()
		tenths := map[time.Duration]int{}
		last := -1
		// The watches stay registered, as if their clients did not read. That must not delay
		// the others.
		addWatches(t, r, count, func(i int) {
			tenths[time.Since(began)*10/(period/2)]++ // a thousand watches take half the period
			if i != last+1 {
				t.Errorf("watch %d ended after watch %d", i, last)
			}
			last = i
		})
		r.endSpread(t.Context(), period)
		for tenth := range time.Duration(10) {
			// A watch at the edge may count for either tenth.
			if n := tenths[tenth]; n < count/10-1 || n > count/10+1 {
				t.Errorf("got %d of %d watches in tenth %d, want a tenth", n, count, tenth)
			}
		}
		if r.add(&Entry{}, nil) == nil {
			t.Error("got no error for a new watch while the server drains")
		}
	})
}

// A drain of a few watches takes hardly any time.
func TestDrainingFewTakesNoTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for count, most := range map[int]time.Duration{0: 0, 1: drainGap, 10: 10 * drainGap} {
			r := newRegistry()
			ended := 0
			addWatches(t, r, count, func(int) { ended++ })
			began := time.Now()
			r.endSpread(t.Context(), time.Hour)
			if took := time.Since(began); took > most || ended != count {
				t.Errorf("%d of %d watches ended in %v, want all within %v", ended, count, took, most)
			}
		}
	})
}

// A drain ends before its period when all watches have ended for other reasons, and when its
// context ends.
func TestDrainingEndsEarly(t *testing.T) {
	for name, stop := range map[string]func(leave []func(), cancel func()){
		"all have left": func(leave []func(), _ func()) {
			for _, l := range leave {
				l()
			}
		},
		"context ends": func(_ []func(), cancel func()) { cancel() },
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRegistry()
			var ended atomic.Int64
			var leave []func()
			for _, e := range addWatches(t, r, 1000, func(int) { ended.Add(1) }) {
				leave = append(leave, func() { r.remove(e) })
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			time.AfterFunc(time.Second, func() { stop(leave, cancel) })
			began := time.Now()
			r.endSpread(ctx, 10*time.Second)
			if took := time.Since(began); took != time.Second || ended.Load() == 1000 {
				t.Errorf("%s: the drain took %v and ended %d watches, want 1s and not all of them", name, took, ended.Load())
			}
		})
	}
}
