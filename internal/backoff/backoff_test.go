package backoff_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanoutd/fanoutd/internal/backoff"
)

func TestDelayDoublesUpToALimit(t *testing.T) {
	b := backoff.OfStore
	for i, delay := range []time.Duration{50, 100, 200, 400, 800, 1600, 3200, 5000, 5000} {
		if got, most := b.Next(), delay*time.Millisecond; got < most/2 || got > most {
			t.Errorf("wait %d: got %v, want %v to %v", i, got, most/2, most)
		}
	}
	b.Reset()
	if got := b.Next(); got > 50*time.Millisecond {
		t.Errorf("after a reset: got %v, want at most 50ms", got)
	}
}

func TestSleepEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if !backoff.Sleep(t.Context(), time.Minute) {
			t.Error("got false, want true after the full time")
		}
		if got := time.Since(began); got != time.Minute {
			t.Errorf("slept %v, want 1m", got)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if backoff.Sleep(ctx, time.Minute) {
			t.Error("got true, want false when the context ends first")
		}
		if got := time.Since(began); got != time.Minute+time.Second {
			t.Errorf("slept until %v, want until 1m1s", got)
		}
	})
}
