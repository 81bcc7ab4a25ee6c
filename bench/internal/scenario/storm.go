package scenario

import (
	"context"
	"fmt"
	"time"

	"github.com/fanoutd/fanoutd/bench/internal/load"
	"github.com/fanoutd/fanoutd/bench/internal/peer"
)

// storm measures how long all watchers take to receive their state or their missed events
// when they begin at once. They are connected before. A delivery is an object of the state or
// a missed event.
func storm(ctx context.Context, programs peer.Programs, system *peer.Peer, p Parameters, o Observer) (*Record, error) {
	o.Phase("fill")
	w := newWriter(p, system.Writer)
	if err := w.prefill(ctx, system); err != nil {
		return nil, err
	}
	if err := w.fill(ctx); err != nil {
		return nil, err
	}
	config := w.config(system.Address)
	if p.Scenario == Resume {
		if system.Positions == nil {
			return nil, fmt.Errorf("watches of %s cannot resume", p.Peer)
		}
		position, err := system.Positions.Position(ctx)
		if err != nil {
			return nil, err
		}
		config.After = &position
		if err := w.fill(ctx); err != nil {
			return nil, err
		}
	}
	empty, err := usage(ctx, system)
	if err != nil {
		return nil, err
	}
	o.Phase("connect")
	watchers, err := load.Start(ctx, programs.Self, config)
	if err != nil {
		return nil, err
	}
	defer watchers.Stop()
	if err := wait(ctx, settle); err != nil {
		return nil, err
	}
	before, err := system.Usage()
	if err != nil {
		return nil, err
	}
	if err := resetPeaks(system); err != nil {
		return nil, err
	}
	r := newRecord(p, programs)
	after, err := r.measure(ctx, system, o, func() error {
		if err := watchAll(ctx, watchers, int64(p.Keys)); err != nil {
			r.Stalled = err.Error()
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	idle, err := usage(ctx, system)
	if err != nil {
		return nil, err
	}
	o.Phase("report")
	report, err := watchers.Report(ctx, w.written)
	if err != nil {
		return nil, err
	}
	r.addReport(w, report)
	for i, s := range system.Servers {
		r.Servers = append(r.Servers, r.server(s.Name, empty[i], idle[i], before[i], after[i]))
	}
	return r, nil
}

// stormTimeout bounds the duration of a storm.
const stormTimeout = 2 * time.Minute

// watchAll starts all watches, and waits until all of them have received a number of events.
func watchAll(ctx context.Context, watchers *load.Load, events int64) error {
	ctx, cancel := context.WithTimeout(ctx, stormTimeout)
	defer cancel()
	if err := watchers.Watch(ctx); err != nil {
		return err
	}
	return watchers.Await(ctx, events)
}
