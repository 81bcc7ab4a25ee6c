package scenario

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/fanoutd/fanoutd/bench/internal/delivery"
	"github.com/fanoutd/fanoutd/bench/internal/peer"
	"github.com/fanoutd/fanoutd/bench/internal/stamp"
)

const (
	// writeTimeout is the timeout of a write to a cluster. It is longer than etcd's own of 7 s.
	writeTimeout = 8 * time.Second
	// working is the number of acknowledged writes after which a writer works again.
	working = 20
	// writePause is the pause after a write, so that a member that starts again can catch up.
	writePause = 5 * time.Millisecond
	// outageTimeout bounds the time until all writers work.
	outageTimeout = time.Minute
)

// clusterOutage measures how long writers have no acknowledged write when a member dies. The writers use all
// members, as clients do that know all addresses.
func clusterOutage(ctx context.Context, programs peer.Programs, system *peer.Peer, p Parameters, o Observer) (*Record, error) {
	g := startGaps(ctx, system.Writer, p)
	defer g.stop()
	r := newRecord(p, programs)
	r.Cluster = &Cluster{}
	pauses := delivery.NewLatency()
	began := time.Now()
	o.Phase("measure")
	for range p.Kills {
		leader, _, err := system.Leader(ctx)
		if err != nil {
			return nil, err
		}
		victim := leader
		if p.Victim == VictimFollower {
			victim = (leader + 1) % members
		}
		g.reset()
		if err := g.await(ctx); err != nil {
			return nil, err
		}
		g.reset()
		system.Kill(victim)
		if err := g.await(ctx); err != nil {
			return nil, err
		}
		g.collect(r.Cluster, pauses)
		if err := system.Start(ctx, victim); err != nil {
			return nil, err
		}
	}
	r.Elapsed = time.Since(began)
	r.Cluster.Pauses = pauses.Summary()
	for _, s := range system.Servers {
		r.Servers = append(r.Servers, Server{Name: s.Name})
	}
	return r, nil
}

// gaps measures the longest time between two acknowledged writes of each writer.
type gaps struct {
	stop func()

	mu              sync.Mutex // guards the following, which are since the last reset
	last, longest   []int64    // times of stamp.Now, by writer
	acked           []int      // writes, by writer
	failed, refused int64
}

// startGaps starts writers that have one write in flight each.
func startGaps(ctx context.Context, store peer.Writer, p Parameters) *gaps {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	g := &gaps{last: make([]int64, p.Outstanding), longest: make([]int64, p.Outstanding), acked: make([]int, p.Outstanding)}
	g.stop = func() {
		cancel()
		running.Wait()
	}
	g.reset()
	for writer := range p.Outstanding {
		running.Go(func() {
			for ctx.Err() == nil {
				call, cancel := context.WithTimeout(ctx, writeTimeout)
				err := store.Write(call, []peer.Change{{Key: writer, Value: blank(p.ValueSize)}})
				cancel()
				g.note(writer, err)
				_ = wait(ctx, writePause)
			}
		})
	}
	return g
}

func (g *gaps) note(writer int, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err != nil {
		g.failed++
		if peer.NotApplied(err) {
			g.refused++
		}
		return
	}
	now := stamp.Now()
	g.longest[writer] = max(g.longest[writer], now-g.last[writer])
	g.last[writer] = now
	g.acked[writer]++
}

func (g *gaps) reset() {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := stamp.Now()
	for i := range g.last {
		g.last[i], g.longest[i], g.acked[i] = now, 0, 0
	}
	g.failed, g.refused = 0, 0
}

// await waits until each writer has had acknowledged writes since the last reset.
func (g *gaps) await(ctx context.Context) error {
	for ended := time.Now().Add(outageTimeout); ; {
		if err := wait(ctx, 20*time.Millisecond); err != nil {
			return err
		}
		least := g.least()
		if least >= working {
			return nil
		}
		if time.Now().After(ended) {
			return fmt.Errorf("a writer has %d acknowledged writes after %v, want %d", least, outageTimeout, working)
		}
	}
}

func (g *gaps) least() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	least := g.acked[0]
	for _, n := range g.acked {
		least = min(least, n)
	}
	return least
}

// collect adds the results since the last reset.
func (g *gaps) collect(c *Cluster, pauses delivery.Latency) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, pause := range g.longest {
		pauses.Record(pause)
	}
	c.Failed += g.failed
	c.Refused += g.refused
}
