package leader_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/fanoutd/fanoutd/test/poll"
)

// gaps measures the longest time between two acknowledged writes of each writer.
type gaps struct {
	stop    context.CancelFunc
	running sync.WaitGroup

	mu      sync.Mutex
	last    [writers]time.Time     // guarded by mu: of the last acknowledged write
	longest [writers]time.Duration // guarded by mu: since reset
	acked   [writers]int           // guarded by mu: since reset
	failed  int                    // guarded by mu: since reset
}

func measure(b *testing.B, write func(ctx context.Context, key string) error) *gaps {
	ctx, stop := context.WithCancel(b.Context())
	g := &gaps{stop: stop}
	g.reset()
	for w := range writers {
		g.running.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				// The timeout is part of what is measured.
				call, cancel := context.WithTimeout(ctx, writeTimeout)
				err := write(call, fmt.Sprintf("key-%d", w))
				cancel()
				g.mu.Lock()
				if err != nil {
					g.failed++
				} else {
					now := time.Now()
					g.longest[w] = max(g.longest[w], now.Sub(g.last[w]))
					g.last[w] = now
					g.acked[w]++
				}
				g.mu.Unlock()
			}
		})
	}
	b.Cleanup(g.end)
	return g
}

func (g *gaps) end() {
	g.stop()
	g.running.Wait()
}

func (g *gaps) reset() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for w := range writers {
		g.last[w], g.longest[w], g.acked[w] = time.Now(), 0, 0
	}
	g.failed = 0
}

// await waits until each writer has so many acknowledged writes since the last reset.
func (g *gaps) await(b *testing.B, n int) {
	poll.Until(b, "all writers write", func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		return slices.Min(g.acked[:]) >= n
	})
}

// BenchmarkLeaderDies kills the leader in each iteration, under the load of two groups of writers. It
// reports how long a writer had no acknowledged write: through a Client, and through etcd's own client
// with the three members and the same timeout.
//
//	go test -run - -bench LeaderDies -benchtime 10x ./internal/store/leader
func BenchmarkLeaderDies(b *testing.B) {
	c := start(b, "", nil)
	var endpoints []string
	for _, client := range c.clients {
		endpoints = append(endpoints, client.Endpoints()...)
	}
	plain, err := clientv3.New(clientv3.Config{Endpoints: endpoints, Logger: zap.NewNop()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { plain.Close() })
	groups := map[string]*gaps{
		"fanoutd": measure(b, func(ctx context.Context, key string) error {
			_, err := c.Put(ctx, put("ours/"+key))
			return err
		}),
		"etcd-client": measure(b, func(ctx context.Context, key string) error {
			_, err := plain.Put(ctx, "plain/"+key, "value")
			return err
		}),
	}
	outages, failed := map[string][]time.Duration{}, map[string]int{}
	for i := range b.N {
		victim := 1 + i%2
		c.lead(b, victim)
		for _, g := range groups {
			g.reset()
			g.await(b, 20)
		}
		for _, g := range groups {
			g.reset()
		}
		c.processes[victim].Kill(b)
		for name, g := range groups {
			g.await(b, 20)
			g.mu.Lock()
			outages[name] = append(outages[name], g.longest[:]...)
			failed[name] += g.failed
			g.mu.Unlock()
		}
		c.processes[victim].Start(b)
	}
	for name, all := range outages {
		slices.Sort(all)
		b.ReportMetric(all[len(all)/2].Seconds(), name+"-p50-s")
		b.ReportMetric(all[len(all)*99/100].Seconds(), name+"-p99-s")
		b.ReportMetric(float64(failed[name])/float64(b.N), name+"-failed/op")
	}
	b.ReportMetric(float64(c.Stats().Unknown)/float64(b.N), "fanoutd-unknown/op")
}
