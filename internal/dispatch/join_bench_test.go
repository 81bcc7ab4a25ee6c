package dispatch

import (
	"fmt"
	"testing"

	"github.com/fanoutd/fanoutd/internal/dispatch/catchup"
	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/sendqueue"
)

// aCrowd returns a group with cursors that are no members.
func aCrowd(watches int) (*group, []cursor) {
	var f *feed.Feed
	feed.NewFeeds(feed.Config{}, nil).Enter(&feed.Interest{}, func(entered *feed.Feed, _ object.Position) { f = entered })
	g, s := &group{feed: f}, NewStream(StreamConfig{Queue: &sendqueue.Queue{}, Sink: &Pulled{}, Solo: true})
	crowd := make([]cursor, watches)
	for i := range crowd {
		crowd[i] = cursor{stream: s, group: g, Reader: catchup.Reader{Feed: f, After: 1, Step: catchup.StepLive}}
		g.add(&crowd[i])
	}
	return g, crowd
}

// BenchmarkJoin lets watchers join a group and leave it.
func BenchmarkJoin(b *testing.B) {
	for _, watchers := range []int{1, 100, 10_000} {
		b.Run(fmt.Sprintf("watchers=%d", watchers), func(b *testing.B) {
			g, crowd := aCrowd(watchers)
			b.ReportAllocs()
			for b.Loop() {
				for i := range crowd {
					g.join(&crowd[i])
				}
				for i := range crowd {
					g.leave(&crowd[i])
				}
			}
			b.ReportMetric(float64(b.Elapsed())/float64(b.N*watchers), "ns/watcher")
		})
	}
}

// Joining a group and leaving it allocate nothing.
func TestJoiningAllocatesNothing(t *testing.T) {
	g, crowd := aCrowd(1000)
	if n := testing.AllocsPerRun(10, func() {
		for i := range crowd {
			g.join(&crowd[i])
		}
		for i := range crowd {
			g.leave(&crowd[i])
		}
	}); n != 0 {
		t.Errorf("got %v allocations for a thousand watchers, want 0", n)
	}
}
