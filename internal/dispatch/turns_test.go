package dispatch

import (
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/dispatch/catchup"
	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/sendqueue"
	"github.com/fanoutd/fanoutd/internal/work"
	"github.com/fanoutd/fanoutd/test/cachertest"
)

// No more goroutines work at once than there are turns, and all get their turn.
func TestTurnsLimitHowManyWorkAtOnce(t *testing.T) {
	const most, goroutines = 3, 100
	synctest.Test(t, func(t *testing.T) {
		turns := make(work.Turns, most)
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
	if cap(work.NewTurns()) < 1 {
		t.Error("there are no turns")
	}
}

// A catch-up of any kind gets no events while other catch-ups have all turns.
func TestCatchUpsWaitForTheirTurn(t *testing.T) {
	begins := []struct {
		kind    object.CatchUpKind
		after   object.Revision // position of the watcher; 0: it has none
		options Options
	}{
		{kind: object.Reset},
		{kind: object.Delta, after: 1},
		{kind: object.Replay, after: 45},
		{kind: object.Replay, after: 45, options: Options{Latest: true}},
	}
	window := cacher.WindowLimits{MaxChanges: 20}
	bubbleWithWindow(t, feed.Config{}, window, func(t *testing.T, d *Dispatcher, m *cachertest.Memory, q *sendqueue.Queue) {
		turns := make(work.Turns, 1) // a channel of the bubble
		d.feeds.Config.Turns = turns
		for i := range 50 {
			m.Put(object.Key(strconv.Itoa(i)), "value")
		}
		synctest.Wait()
		for _, b := range begins {
			begin := catchup.FromSnapshot(0)
			if b.after > 0 {
				begin = catchup.FromPosition(object.Position{Epoch: d.feeds.Config.Source.State().Position().Epoch, Revision: b.after})
			}
			turns <- struct{}{} // another catch-up has the only turn
			w := d.Pull(q, feed.Interest{}, begin, b.options)
			var got []object.Header
			synced := make(chan struct{})
			go func() {
				defer close(synced)
				for len(got) == 0 || got[len(got)-1].Kind != object.Synced {
					message, err := w.Next(t.Context())
					if err != nil {
						t.Error(err)
						return
					}
					got = append(got, message.Header)
				}
			}()
			synctest.Wait()
			if len(got) > 1 { // the first message has no events
				t.Errorf("%v, %+v: got %d messages without a turn", b.kind, b.options, len(got))
			}
			<-turns
			<-synced
			if len(got) < 3 || got[0].CatchUp != b.kind {
				t.Errorf("%v, %+v: got messages %+v", b.kind, b.options, got)
			}
			w.Close()
		}
	})
}
