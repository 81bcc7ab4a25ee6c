package feed

import (
	"fmt"
	"testing"
	"time"

	"github.com/fanoutd/fanoutd/internal/object"
)

// The batch cache drops batches of segments that the log has dropped, even a batch that is
// being cut at that moment. Only a test inside the package can hit that moment.
func TestBatchesAreDroppedWithTheirLog(t *testing.T) {
	all := NewFeeds(Config{Source: confirmedNow{}, LogBytes: 1 << 10}, nil)
	var f *Feed
	for range 2 {
		all.Enter(&Interest{}, func(entered *Feed, _ object.Position) { f = entered })
	}
	put := func(revision object.Revision, n int) {
		f.append(entry{revision: revision}, make([]byte, n))
		f.publish()
	}
	kept := func() (n int) {
		for i := range f.batches.recent {
			if b := f.batches.recent[i].Load(); b != nil {
				if n++; b.start.View.base != f.View.Load().base {
					t.Error("the cache keeps a batch of a dropped segment")
				}
			}
		}
		return n
	}
	put(1, 10)
	old := f.View.Load()
	if b := f.Batch(Start{View: old}, time.Now()); b == nil || kept() != 1 {
		t.Fatalf("got batch %v and %d cached batches, want one", b, kept())
	}
	for i := range 100 {
		put(object.Revision(2+i), len(fmt.Sprint("key ", i))+100)
	}
	if n := kept(); n != 0 {
		t.Errorf("got %d cached batches after the log dropped its segments, want none", n)
	}
	if b := f.Batch(Start{View: old}, time.Now()); b == nil || kept() != 0 {
		t.Errorf("got batch %v, and the cache keeps %d late batches, want none", b, kept())
	}
}
