package dispatch

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/sendqueue"
	"github.com/fanoutd/fanoutd/test/cachertest"
)

// The batch cache drops batches of segments that the log has dropped, even a batch that is
// being cut at that moment. Only a test inside the package can hit that moment.
func TestBatchesAreDroppedWithTheirLog(t *testing.T) {
	bubble(t, Config{LogBytes: 1 << 10}, func(t *testing.T, d *Dispatcher, m *cachertest.Memory, q *sendqueue.Queue) {
		var watchers [2]*Polled
		for i := range watchers {
			watchers[i] = d.Poll(q, Interest{}, FromNow(d.cfg.Source.State().Position()), Options{})
			defer watchers[i].Close()
			for ok := true; ok; {
				var err error
				if _, ok, err = watchers[i].Try(); err != nil {
					t.Fatal(err)
				}
			}
		}
		f := watchers[0].feed
		kept := func() (n int) {
			for i := range f.batches.recent {
				if b := f.batches.recent[i].Load(); b != nil {
					if n++; b.start.view.base != f.view.Load().base {
						t.Error("the cache keeps a batch of a dropped segment")
					}
				}
			}
			return n
		}
		m.Put("a", "1")
		synctest.Wait()
		if _, outcome := watchers[0].Poll(time.Now()); outcome != Found || kept() != 1 {
			t.Fatalf("got outcome %d and %d cached batches, want one", outcome, kept())
		}
		old := f.view.Load()
		for i := range 100 {
			m.Put(object.Key(fmt.Sprint("key ", i)), strings.Repeat("x", 100))
		}
		synctest.Wait()
		if n := kept(); n != 0 {
			t.Errorf("got %d cached batches after the log dropped its segments, want none", n)
		}
		if b := f.batch(batchStart{view: old, after: watchers[1].after}, time.Now()); b == nil || kept() != 0 {
			t.Errorf("got batch %v, and the cache keeps %d late batches, want none", b, kept())
		}
	})
}
