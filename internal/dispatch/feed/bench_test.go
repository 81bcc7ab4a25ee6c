package feed

import (
	"fmt"
	"testing"
	"time"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/ratio"
)

// These benchmarks measure the steps of a delivery one by one. BenchmarkEvent measures all of
// them together.

// aFeed returns an empty feed with room in the log budget.
func aFeed() *Feed {
	all := NewFeeds(Config{Source: confirmedNow{}}, nil)
	f := &Feed{Feeds: all}
	f.View.Store(&View{base: object.Position{Epoch: "e", Revision: 1}})
	return f
}

// BenchmarkAppend appends events to a log and publishes them, one at a time or in bursts.
func BenchmarkAppend(b *testing.B) {
	event := make([]byte, 300)
	for _, burst := range []int{1, 64} {
		b.Run(fmt.Sprintf("burst=%d", burst), func(b *testing.B) {
			f := aFeed()
			at := object.Revision(1)
			b.ReportAllocs()
			for b.Loop() {
				for range burst {
					at++
					f.append(entry{revision: at}, event)
				}
				f.publish()
			}
			b.ReportMetric(float64(b.Elapsed())/float64(b.N*burst), "ns/event")
		})
	}
}

// BenchmarkCut cuts the next batch of a watcher out of logs of different lengths.
func BenchmarkCut(b *testing.B) {
	for _, waiting := range []int{1, 64, 1000} {
		var row ratio.Row
		for _, long := range []int{1000, 10_000, 100_000} {
			b.Run(fmt.Sprintf("waiting=%d/log=%d", waiting, long), func(b *testing.B) {
				f := aFeed()
				event := make([]byte, 300)
				for i := range long {
					f.append(entry{revision: object.Revision(2 + i)}, event)
				}
				f.publish()
				v := f.View.Load()
				after := object.Revision(1 + long - waiting)
				b.ReportAllocs()
				for b.Loop() {
					if _, end, _ := v.Read(after, 0, 1<<20, AllRevisions); end.Taken != waiting {
						b.Fatalf("got %d events, want %d", end.Taken, waiting)
					}
				}
				row.Report(b)
			})
		}
	}
}

// confirmedNow is a source that has everything that the store has.
type confirmedNow struct{ Source }

// Confirmed implements Source.
func (confirmedNow) Confirmed() time.Time { return time.Now() }

// BenchmarkBatch finds a batch in the cache, or cuts it and adds it to the cache.
func BenchmarkBatch(b *testing.B) {
	for _, shared := range []bool{true, false} {
		b.Run(fmt.Sprintf("shared=%v", shared), func(b *testing.B) {
			f := aFeed()
			f.hadSeveral.Store(shared)
			f.append(entry{revision: 2}, make([]byte, 300))
			f.publish()
			v := f.View.Load()
			b.ReportAllocs()
			for b.Loop() {
				if f.Batch(Start{v, 1, 0}, time.Now()) == nil {
					b.Fatal("got no batch")
				}
			}
		})
	}
}

// BenchmarkLookup finds the feed of a key among many others.
func BenchmarkLookup(b *testing.B) {
	var row ratio.Row
	for _, interests := range []int{100, 10_000, 100_000} {
		b.Run(fmt.Sprintf("interests=%d", interests), func(b *testing.B) {
			x := newIndex(nil)
			for i := range interests {
				f := &Feed{Interest: Interest{Scope: object.ExactKey(object.Key(fmt.Sprintf("folder/%d", i)))}}
				x.add(f)
			}
			c := object.Change{Revision: 2, Key: "folder/7", New: &object.Object{Key: "folder/7"}}
			b.ReportAllocs()
			for b.Loop() {
				n := 0
				for range x.concerned(&c) {
					n++
				}
				if n != 1 {
					b.Fatalf("got %d feeds, want 1", n)
				}
			}
			row.Report(b)
		})
	}
}

// Finding a shared batch allocates nothing. Finding the interests that a change concerns allocates
// nothing for the others.
func TestPartsAllocateNothing(t *testing.T) {
	f := aFeed()
	f.hadSeveral.Store(true)
	f.append(entry{revision: 2}, make([]byte, 300))
	f.publish()
	v, now := f.View.Load(), time.Now()
	if n := testing.AllocsPerRun(10, func() {
		for range 1000 {
			if f.Batch(Start{v, 1, 0}, now) == nil {
				t.Fatal("got no batch")
			}
		}
	}); n != 0 {
		t.Errorf("got %v allocations for a thousand watchers, want 0", n)
	}
	x := newIndex(nil)
	x.add(f)
	c := object.Change{Revision: 2, Key: "folder/7", New: &object.Object{Key: "folder/7"}}
	lookup := func() float64 {
		return testing.AllocsPerRun(10, func() {
			for range x.concerned(&c) {
			}
		})
	}
	alone := lookup()
	for i := range 1000 {
		x.add(&Feed{Interest: Interest{Scope: object.ExactKey(object.Key(fmt.Sprintf("other/%d", i)))}})
	}
	if among := lookup(); among > alone {
		t.Errorf("got %v allocations to find a lone feed, and %v among a thousand others", alone, among)
	}
}
