package scenario

import (
	"context"
	"fmt"
	"time"

	"github.com/fanoutd/fanoutd/bench/internal/load"
	"github.com/fanoutd/fanoutd/bench/internal/peer"
)

// idle measures the cost of idle watchers, checks that one event then reaches all of them,
// and measures the memory and goroutines that remain after they have disconnected.
func idle(ctx context.Context, programs peer.Programs, system *peer.Peer, p Parameters, o Observer) (*Record, error) {
	o.Phase("fill")
	w := newWriter(p, system.Writer)
	if err := w.prefill(ctx, system); err != nil {
		return nil, err
	}
	empty, err := usage(ctx, system)
	if err != nil {
		return nil, err
	}
	o.Phase("connect")
	watchers, err := load.Start(ctx, programs.Self, w.config(system.Address))
	if err != nil {
		return nil, err
	}
	defer watchers.Stop()
	w.load = watchers
	if err := wait(ctx, settle+settling(p)); err != nil {
		return nil, err
	}
	before, err := system.Usage()
	if err != nil {
		return nil, err
	}
	o.Phase("measure")
	if err := wait(ctx, p.Duration); err != nil {
		return nil, err
	}
	after, err := system.Usage()
	if err != nil {
		return nil, err
	}
	if err := system.CountGoroutines(ctx, after); err != nil {
		return nil, err
	}
	r := newRecord(p, programs)
	began := time.Now()
	if err := w.writeOneByOne(ctx, 1); err != nil {
		r.Stalled = err.Error()
	}
	r.Elapsed = time.Since(began)
	o.Phase("leave")
	report, err := watchers.Report(ctx, w.written)
	if err != nil {
		return nil, err
	}
	r.addReport(w, report)
	if err := awaitGoroutines(ctx, system, empty); err != nil {
		return nil, err
	}
	if err := wait(ctx, settling(p)); err != nil {
		return nil, err
	}
	left, err := usage(ctx, system)
	if err != nil {
		return nil, err
	}
	watches, err := system.Watches(ctx)
	if err != nil {
		return nil, err
	}
	live, err := system.Live(ctx)
	if err != nil {
		return nil, err
	}
	for i, s := range system.Servers {
		server := r.server(s.Name, empty[i], after[i], before[i], after[i])
		server.RSSLeft, server.GoroutinesLeft = left[i].RSS, left[i].Goroutines-empty[i].Goroutines
		server.LiveLeft, server.WatchesLeft = live[i], watches[i]
		server.Peak = left[i].Peak // the setup and the event are the most work
		r.Servers = append(r.Servers, server)
	}
	return r, nil
}

// settling returns how long a server may take to return memory, after the setup and after
// the watchers have disconnected. With few watchers it is not worth the wait.
func settling(p Parameters) time.Duration {
	if p.Watchers < 5000 {
		return 0
	}
	return 15 * time.Second
}

const (
	// exitTimeout is the time for the goroutines of the watchers to end.
	exitTimeout = 30 * time.Second
	// extraGoroutines is the number of goroutines that may have other causes.
	extraGoroutines = 20
)

// awaitGoroutines waits until the goroutines of the watchers have ended, or for exitTimeout.
func awaitGoroutines(ctx context.Context, system *peer.Peer, empty []peer.Usage) error {
	for ended := time.Now().Add(exitTimeout); ; {
		left, err := usage(ctx, system)
		if err != nil {
			return err
		}
		gone := true
		for i := range left {
			gone = gone && left[i].Goroutines <= empty[i].Goroutines+extraGoroutines
		}
		if gone || time.Now().After(ended) {
			return nil
		}
	}
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait: %w", context.Cause(ctx))
	}
}
