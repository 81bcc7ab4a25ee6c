package scenario

import (
	"context"

	"github.com/fanoutd/fanoutd/bench/internal/load"
	"github.com/fanoutd/fanoutd/bench/internal/peer"
)

// open measures how long it takes to open all watches at once, from now, and what that costs. They
// are connected before. A delivery is the confirmation of a watch. One event afterwards shows that
// all watches work.
func open(ctx context.Context, programs peer.Programs, system *peer.Peer, p Parameters, o Observer) (*Record, error) {
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
	if err := wait(ctx, settle); err != nil {
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
	after, err := r.measure(ctx, system, o, func() error { return watchers.Watch(ctx) })
	if err != nil {
		return nil, err
	}
	idle, err := usage(ctx, system)
	if err != nil {
		return nil, err
	}
	if err := w.writeOneByOne(ctx, 1); err != nil {
		r.Stalled = err.Error()
	}
	o.Phase("report")
	report, err := watchers.Report(ctx, w.written)
	if err != nil {
		return nil, err
	}
	r.addReport(w, report)
	r.Deliveries = int64(p.Watchers)
	r.PerSecond = float64(r.Deliveries) / r.Elapsed.Seconds()
	for i, s := range system.Servers {
		r.Servers = append(r.Servers, r.server(s.Name, empty[i], idle[i], before[i], after[i]))
	}
	return r, nil
}
