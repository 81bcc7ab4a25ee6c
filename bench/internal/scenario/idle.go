package scenario

import (
	"context"
	"fmt"
	"time"

	"github.com/fanoutd/fanoutd/bench/internal/load"
	"github.com/fanoutd/fanoutd/bench/internal/peer"
)

// idle measures the cost of idle watchers, checks that one event then reaches all of them,
// and measures what remains after they have left.
func idle(ctx context.Context, programs peer.Programs, system *peer.Peer, p Parameters, o Observer) (*Record, error) {
	o.Phase("fill")
	w := newWriting(p, system.Writer)
	if err := w.surround(ctx, system); err != nil {
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
	if err := wait(ctx, settling(p)); err != nil {
		return nil, err
	}
	before, err := usage(ctx, system)
	if err != nil {
		return nil, err
	}
	o.Phase("measure")
	if err := wait(ctx, p.Duration); err != nil {
		return nil, err
	}
	after, err := system.Usage(ctx)
	if err != nil {
		return nil, err
	}
	r := newRecord(p, programs)
	began := time.Now()
	if err := w.warm(ctx, 1); err != nil {
		r.Stalled = err.Error()
	}
	r.Elapsed = time.Since(began)
	o.Phase("leave")
	report, err := watchers.Report(ctx, w.written)
	if err != nil {
		return nil, err
	}
	r.take(w, report)
	if err := leave(ctx, system, empty); err != nil {
		return nil, err
	}
	if err := wait(ctx, settling(p)); err != nil {
		return nil, err
	}
	left, err := usage(ctx, system)
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
		server.LiveLeft = live[i]
		r.Servers = append(r.Servers, server)
	}
	return r, nil
}

// settling is the time for a server to return memory after the setup, and after watchers
// have left. With few watchers it is not worth the wait.
func settling(p Parameters) time.Duration {
	if p.Watchers < 5000 {
		return 0
	}
	return 15 * time.Second
}

const (
	// leaving is the time for the goroutines of the watchers to end.
	leaving = 30 * time.Second
	// slack is the number of goroutines that may come from elsewhere.
	slack = 20
)

// leave waits until the goroutines of the watchers have ended.
func leave(ctx context.Context, system *peer.Peer, empty []peer.Usage) error {
	for ended := time.Now().Add(leaving); ; {
		left, err := usage(ctx, system)
		if err != nil {
			return err
		}
		gone := true
		for i := range left {
			gone = gone && left[i].Goroutines <= empty[i].Goroutines+slack
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
