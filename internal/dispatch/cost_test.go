package dispatch_test

import (
	"fmt"
	"testing"

	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/dispatch/catchup"
	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/poll"
	"github.com/fanoutd/fanoutd/test/ratio"
)

// The allocations of a change do not depend on the number of interests that it does not concern.
func TestUnrelatedInterestsAllocateNothing(t *testing.T) {
	allocations := func(interests int) float64 {
		f := startDispatching(t, limits{})
		for i := range interests {
			f.gather(t, 1, feed.Interest{Scope: object.ExactKey(object.Key(fmt.Sprint("k/", i)))}, dispatch.Options{})
		}
		concerned := f.gather(t, 1, feed.Interest{Scope: object.ExactKey("k")}, dispatch.Options{})
		return testing.AllocsPerRun(20, func() {
			concerned.after(func() { f.store.Put("k", "v") })
		})
	}
	few, many := allocations(10), allocations(5000)
	if many > few+5 {
		t.Errorf("got %v allocations of a change with 10 unrelated interests and %v with 5000", few, many)
	}
}

// A snapshot allocates nothing for each object, but some slices of a large one grow once more.
// Objects outside the scope cost nothing.
func TestSnapshotsAllocateNothingForEachObject(t *testing.T) {
	allocations := func(i feed.Interest, objects int) float64 {
		f := filled(t, objects)
		return testing.AllocsPerRun(10, func() { catchUp(t, f, i, catchup.FromSnapshot(0)) })
	}
	if few, many := allocations(feed.Interest{}, 100), allocations(feed.Interest{}, 5000); many > few+50 {
		t.Errorf("got %v allocations for a snapshot of 100 objects and %v for one of 5000", few, many)
	}
	for _, scope := range []object.Scope{prefix(t, "folder-7"), object.ExactKey("folder-7/7")} {
		i := feed.Interest{Scope: scope}
		if few, many := allocations(i, 100), allocations(i, 5000); many > few+5 {
			t.Errorf("got %v allocations for a snapshot of %v among 100 objects and %v among 5000", few, scope, many)
		}
	}
}

// BenchmarkEvent delivers one event from the store to the sinks of all watchers of one interest.
// The last number is the time per watcher.
func BenchmarkEvent(b *testing.B) {
	for _, delivery := range []struct {
		name    string
		options dispatch.Options
	}{{"every event", dispatch.Options{}}, {"latest", dispatch.Options{Latest: true}}} {
		for _, watchers := range []int{1, 100, 10_000} {
			b.Run(fmt.Sprintf("%s/watchers=%d", delivery.name, watchers), func(b *testing.B) {
				f := startDispatching(b, limits{})
				crowd := f.gather(b, watchers, feed.Interest{Scope: object.ExactKey("k")}, delivery.options)
				b.ReportAllocs()
				for b.Loop() {
					crowd.forget()
					crowd.after(func() { f.store.Put("k", "v") })
				}
				b.ReportMetric(float64(b.Elapsed())/float64(b.N*watchers), "ns/watcher")
			})
		}
	}
}

// BenchmarkResume resumes a watcher that has missed ten changes, with windows of different
// sizes.
func BenchmarkResume(b *testing.B) {
	var row ratio.Row
	for _, window := range []int{1000, 10_000, 100_000} {
		b.Run(fmt.Sprintf("window=%d", window), func(b *testing.B) {
			f := start(b, limits{window: window})
			for i := range 2 * window {
				f.store.Put(object.Key(fmt.Sprint("k/", i%100)), "v")
			}
			await(b, f)
			at := f.cacher.State().Position()
			at.Revision -= 10
			b.ReportAllocs()
			for b.Loop() {
				if got := catchUp(b, f, feed.Interest{}, catchup.FromPosition(at)); got != 10 {
					b.Fatalf("got %d changes, want 10", got)
				}
			}
			row.Report(b)
		})
	}
}

// BenchmarkSnapshot starts a watcher, reads its snapshot and closes it. The scope has one object,
// ten or all of them. "In company" means that another watcher has the same interest and a
// snapshot already, so the parts are cached.
func BenchmarkSnapshot(b *testing.B) {
	run := func(name string, scope object.Scope, objects []int, want int, company bool) {
		var row ratio.Row
		for _, n := range objects {
			b.Run(fmt.Sprintf("%s/objects=%d", name, n), func(b *testing.B) {
				f := filled(b, n)
				i := feed.Interest{Scope: scope}
				begin := catchup.FromSnapshot(0)
				if company {
					other := f.dispatcher.Pull(f.workers.NewQueue(), i, begin, dispatch.Options{})
					b.Cleanup(other.Close)
					readCatchUp(b, other)
				}
				b.ReportAllocs()
				for b.Loop() {
					if got := catchUp(b, f, i, begin); want > 0 && got != want {
						b.Fatalf("got %d objects, want %d", got, want)
					}
				}
				row.Report(b)
			})
		}
	}
	folder := prefix(b, "folder-7")
	run("key", object.ExactKey("folder-7/7"), []int{100, 10_000, 100_000}, 1, false)
	run("scope of 10", folder, []int{100, 10_000, 100_000}, 10, false)
	run("scope of 10 in company", folder, []int{100, 10_000, 100_000}, 10, true)
	run("all", object.Scope{}, []int{1000, 10_000}, 0, false)
	run("all in company", object.Scope{}, []int{1000, 10_000}, 0, true)
}

// filled returns a dispatcher of a number of objects, in folders of ten.
func filled(tb testing.TB, objects int) *fixture {
	tb.Helper()
	f := start(tb, limits{})
	all := map[object.Key][]byte{}
	for i := range objects {
		all[object.Key(fmt.Sprintf("folder-%d/%d", i/10, i%10))] = make([]byte, 200)
	}
	f.store.Commit(all)
	await(tb, f)
	return f
}

// await waits until the dispatcher has taken all writes.
func await(tb testing.TB, f *fixture) {
	tb.Helper()
	poll.Until(tb, "the dispatcher has caught up", func() bool { return f.dispatcher.Stats().DispatchedUpTo.Revision >= f.store.Now() })
}

// catchUp starts a watcher, reads its catch-up and closes it. It returns the number of events.
func catchUp(tb testing.TB, f *fixture, i feed.Interest, begin catchup.Begin) int {
	tb.Helper()
	w := f.dispatcher.Pull(f.workers.NewQueue(), i, begin, dispatch.Options{})
	defer w.Close()
	return readCatchUp(tb, w)
}

// readCatchUp reads messages up to SYNCED, and returns the number of their events.
func readCatchUp(tb testing.TB, w *dispatch.Pulled) int {
	tb.Helper()
	events := 0
	for {
		m, err := w.Next(tb.Context())
		if err != nil {
			tb.Fatal(err)
		}
		events += m.Count
		if m.Header.Kind == object.Synced {
			return events
		}
	}
}
