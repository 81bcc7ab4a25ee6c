package dispatch

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// No more goroutines work at once than there are turns, and all get their turn.
func TestTurnsLimitHowManyWorkAtOnce(t *testing.T) {
	const most, goroutines = 3, 100
	synctest.Test(t, func(t *testing.T) {
		turns := make(Turns, most)
		var working, done atomic.Int32
		var group sync.WaitGroup
		for range goroutines {
			group.Go(func() {
				turns.Do(func() {
					if n := working.Add(1); n > most {
						t.Errorf("got %d at once, want at most %d", n, most)
					}
					time.Sleep(time.Second)
					working.Add(-1)
					done.Add(1)
				})
			})
		}
		group.Wait()
		if done.Load() != goroutines {
			t.Errorf("got %d turns, want %d", done.Load(), goroutines)
		}
	})
	if cap(NewTurns()) < 1 {
		t.Error("there are no turns")
	}
}
