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

// What the log has forgotten is not kept by messages that were made of it, not even by
// one that is being made at that moment. From outside the moment cannot be hit.
func TestMessagesAreForgottenWithTheLog(t *testing.T) {
	bubble(t, Config{FeedBytes: 1 << 10}, func(t *testing.T, d *Dispatcher, m *cachertest.Memory, q *sendqueue.Queue) {
		var watchers [2]*Watcher
		for i := range watchers {
			watchers[i] = d.Asked(q, Interest{}, FromNow(d.cfg.Source.State().Position()), Options{})
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
				if told := f.batches.recent[i].Load(); told != nil {
					if n++; told.start.view.after != f.view.Load().after {
						t.Error("a message is kept of what is forgotten")
					}
				}
			}
			return n
		}
		m.Put("a", "1")
		synctest.Wait()
		if _, outcome := watchers[0].Poll(time.Now()); outcome != Found || kept() != 1 {
			t.Fatalf("outcome %d; %d messages are kept, want one", outcome, kept())
		}
		old := f.view.Load()
		for i := range 100 {
			m.Put(object.Key(fmt.Sprint("key ", i)), strings.Repeat("x", 100))
		}
		synctest.Wait()
		if n := kept(); n != 0 {
			t.Errorf("%d messages are kept after the log has forgotten", n)
		}
		if told := f.batch(batchStart{view: old, cursor: watchers[1].cursor}, d); told == nil || kept() != 0 {
			t.Errorf("told %v; %d messages are kept that came too late", told, kept())
		}
	})
}
