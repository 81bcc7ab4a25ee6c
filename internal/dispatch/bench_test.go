package dispatch_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/object"
)

// BenchmarkEvent is the way of one event from the store to all watchers of one
// interest, each of which has a goroutine. What one more watcher costs is the
// wake-up of its goroutine.
func BenchmarkEvent(b *testing.B) {
	for _, watchers := range []int{1, 100, 10_000} {
		b.Run(fmt.Sprintf("watchers=%d", watchers), func(b *testing.B) {
			f := start(b, limits{})
			interest := dispatch.Interest{Scope: object.ExactKey("k")}
			ctx, cancel := context.WithCancel(context.Background())
			var reading, delivered sync.WaitGroup
			defer reading.Wait()
			defer cancel()
			begin := dispatch.FromNow(f.cacher.State().Position())
			delivered.Add(watchers) // the bookmarks
			for range watchers {
				w := f.dispatcher.Watch(interest, begin, dispatch.Options{})
				reading.Go(func() {
					defer w.Close()
					for {
						if _, err := w.Next(ctx); err != nil {
							return
						}
						delivered.Done()
					}
				})
			}
			delivered.Wait()
			b.ReportAllocs()
			for b.Loop() {
				delivered.Add(watchers)
				f.store.Put("k", "v")
				delivered.Wait()
			}
		})
	}
}

// BenchmarkInterests is the cost of a change while there are many interests that
// it does not concern: the index passes over them.
func BenchmarkInterests(b *testing.B) {
	for _, interests := range []int{10, 1000, 100_000} {
		b.Run(fmt.Sprintf("interests=%d", interests), func(b *testing.B) {
			f := start(b, limits{})
			begin := dispatch.FromNow(f.cacher.State().Position())
			watchers := make([]*dispatch.Watcher, interests)
			for i := range watchers {
				watchers[i] = f.dispatcher.Watch(dispatch.Interest{Scope: object.ExactKey(object.Key(fmt.Sprint("k/", i)))}, begin, dispatch.Options{})
				defer watchers[i].Close()
			}
			w := watchers[0]
			if _, err := w.Next(b.Context()); err != nil { // the bookmark
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				f.store.Put("k/0", "v")
				if _, err := w.Next(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
