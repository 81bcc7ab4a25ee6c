package dispatch_test

import (
	"fmt"
	"testing"

	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/poll"
	"github.com/fanoutd/fanoutd/test/ratio"
)

// What a change allocates does not depend on how many interests there are that it does
// not concern.
func TestInterestsOfOthersAllocateNothing(t *testing.T) {
	allocations := func(interests int) float64 {
		f := startDispatching(t, limits{})
		for i := range interests {
			f.gather(t, 1, dispatch.Interest{Scope: object.ExactKey(object.Key(fmt.Sprint("k/", i)))}, dispatch.Options{})
		}
		concerned := f.gather(t, 1, dispatch.Interest{Scope: object.ExactKey("k")}, dispatch.Options{})
		return testing.AllocsPerRun(20, func() {
			concerned.after(func() { f.store.Put("k", "v") })
		})
	}
	few, many := allocations(10), allocations(5000)
	if many > few+5 {
		t.Errorf("a change allocates %v times with 10 interests of others and %v times with 5000", few, many)
	}
}

// A snapshot allocates nothing for each object: a larger one makes some slices grow once
// more. Of all that is not in its scope it does not know.
func TestSnapshotsAllocateNothingForEachObject(t *testing.T) {
	allocations := func(i dispatch.Interest, objects int) float64 {
		f := filled(t, objects)
		return testing.AllocsPerRun(10, func() { arrive(t, f, i, dispatch.FromSnapshot(0)) })
	}
	if few, many := allocations(dispatch.Interest{}, 100), allocations(dispatch.Interest{}, 5000); many > few+50 {
		t.Errorf("a snapshot of 100 objects allocates %v times, and one of 5000 %v times", few, many)
	}
	for _, scope := range []object.Scope{prefix(t, "folder-7"), object.ExactKey("folder-7/7")} {
		i := dispatch.Interest{Scope: scope}
		if few, many := allocations(i, 100), allocations(i, 5000); many > few+5 {
			t.Errorf("a snapshot of %v among 100 objects allocates %v times, and among 5000 %v times", scope, few, many)
		}
	}
}

// BenchmarkEvent is the way of one event from the store to all watchers of one
// interest, up to what each of them is told. The last number is what one watcher adds
// to it.
func BenchmarkEvent(b *testing.B) {
	for _, way := range []struct {
		name    string
		options dispatch.Options
	}{{"every event", dispatch.Options{}}, {"latest", dispatch.Options{Latest: true}}} {
		for _, watchers := range []int{1, 100, 10_000} {
			b.Run(fmt.Sprintf("%s/watchers=%d", way.name, watchers), func(b *testing.B) {
				f := startDispatching(b, limits{})
				crowd := f.gather(b, watchers, dispatch.Interest{Scope: object.ExactKey("k")}, way.options)
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

// BenchmarkResume brings a watcher to the present who has missed ten changes, in windows
// that reach back differently far.
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
				if told := arrive(b, f, dispatch.Interest{}, dispatch.After(at)); told != 10 {
					b.Fatalf("told of %d changes", told)
				}
			}
			row.Report(b)
		})
	}
}

// BenchmarkSnapshot is a watcher who comes, is told of the one object or the ten of its
// scope among so many, and leaves; and one who is told of all. In company means that somebody else
// has the same interest and has been told before, so that the parts are there.
func BenchmarkSnapshot(b *testing.B) {
	run := func(name string, scope object.Scope, objects []int, told int, company bool) {
		var row ratio.Row
		for _, n := range objects {
			b.Run(fmt.Sprintf("%s/objects=%d", name, n), func(b *testing.B) {
				f := filled(b, n)
				i := dispatch.Interest{Scope: scope}
				begin := dispatch.FromSnapshot(0)
				if company {
					stays := f.dispatcher.Pull(f.workers.NewQueue(), i, begin, dispatch.Options{})
					b.Cleanup(stays.Close)
					reachPresent(b, stays)
				}
				b.ReportAllocs()
				for b.Loop() {
					if got := arrive(b, f, i, begin); told > 0 && got != told {
						b.Fatalf("told of %d objects", got)
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

// filled returns a dispatcher of so many objects, in folders of ten.
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

// await returns when the dispatcher has taken all that was written.
func await(tb testing.TB, f *fixture) {
	tb.Helper()
	poll.Until(tb, "the dispatcher has caught up", func() bool { return f.dispatcher.Stats().Through.Revision >= f.store.Now() })
}

// arrive has a watcher come, be brought to the present and leave. It returns the number
// of events that it was told.
func arrive(tb testing.TB, f *fixture, i dispatch.Interest, begin dispatch.Begin) int {
	tb.Helper()
	w := f.dispatcher.Pull(f.workers.NewQueue(), i, begin, dispatch.Options{})
	defer w.Close()
	return reachPresent(tb, w)
}

func reachPresent(tb testing.TB, w *dispatch.Watcher) int {
	tb.Helper()
	told := 0
	for {
		m, err := w.Next(tb.Context())
		if err != nil {
			tb.Fatal(err)
		}
		told += m.Count
		if m.Header.Kind == object.Synced {
			return told
		}
	}
}
