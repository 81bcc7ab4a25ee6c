package scenario

import (
	"context"
	"time"

	"github.com/fanoutd/fanoutd/bench/internal/load"
	"github.com/fanoutd/fanoutd/bench/internal/peer"
)

// lists measures the cost of repeated lists of all objects, by all watchers at once. A
// delivery is a list.
func lists(ctx context.Context, programs peer.Programs, system *peer.Peer, p Parameters, o Observer) (*Record, error) {
	o.Phase("fill")
	w := newWriter(p, system.Writer)
	if err := w.prefill(ctx, system); err != nil {
		return nil, err
	}
	if err := w.fill(ctx); err != nil {
		return nil, err
	}
	o.Phase("connect")
	listing, err := load.Start(ctx, programs.Self, p.load(system.Address))
	if err != nil {
		return nil, err
	}
	defer listing.Stop()
	empty, err := usage(ctx, system)
	if err != nil {
		return nil, err
	}
	if err := resetPeaks(system); err != nil {
		return nil, err
	}
	before, err := system.Usage()
	if err != nil {
		return nil, err
	}
	r := newRecord(p, programs)
	after, err := r.measure(ctx, system, o, func() error {
		began := time.Now()
		for again := true; again; again = time.Since(began) < p.Duration {
			if err := listing.Watch(ctx); err != nil {
				return err
			}
			r.Expected += int64(p.Watchers)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	report, err := listing.Report(ctx, make([]uint32, p.Keys))
	if err != nil {
		return nil, err
	}
	r.Each, r.Deliveries = report.Each, report.Each.Count
	r.Counts.Received = r.Deliveries
	r.PerSecond = float64(r.Deliveries) / r.Elapsed.Seconds()
	r.ClientCPU = float64(report.CPU) / float64(max(r.Deliveries, 1))
	for i, s := range system.Servers {
		r.Servers = append(r.Servers, r.server(s.Name, empty[i], empty[i], before[i], after[i]))
	}
	return r, nil
}
