package scenario

import (
	"context"
	"fmt"

	"github.com/fanoutd/fanoutd/bench/internal/delivery"
	"github.com/fanoutd/fanoutd/bench/internal/load"
	"github.com/fanoutd/fanoutd/bench/internal/peer"
)

// clusterLoad measures a cluster with watches at each member: at a rate, without writes, or as fast as events
// are delivered.
func clusterLoad(ctx context.Context, programs peer.Programs, system *peer.Peer, p Parameters, o Observer) (*Record, error) {
	o.Phase("fill")
	w := newWriter(p, system.Writer)
	if err := w.fill(ctx); err != nil {
		return nil, err
	}
	empty, err := usage(ctx, system)
	if err != nil {
		return nil, err
	}
	o.Phase("connect")
	watchers, err := startSpread(ctx, programs, system, w)
	if err != nil {
		return nil, err
	}
	defer watchers.stop()
	w.load = watchers
	o.Phase("warm up")
	if err := w.writeOneByOne(ctx, warmUpWrites); err != nil {
		return nil, fmt.Errorf("warm up: %w", err)
	}
	idle, err := usage(ctx, system)
	if err != nil {
		return nil, err
	}
	_, term, err := system.Leader(ctx)
	if err != nil {
		return nil, err
	}
	if err := watchers.reset(ctx); err != nil {
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
	warmUpEvents := w.issued.Load()
	after, err := r.measure(ctx, system, o, func() error {
		if p.Scenario == ClusterLoad && p.Rate == 0 {
			return wait(ctx, p.Duration)
		}
		err := w.run(ctx)
		if err != nil && ctx.Err() == nil {
			r.Stalled, err = err.Error(), nil
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	_, now, err := system.Leader(ctx)
	if err != nil {
		return nil, err
	}
	r.Cluster = &Cluster{Elected: int64(now - term)}
	o.Phase("report")
	if err := watchers.report(ctx, r, w); err != nil {
		return nil, err
	}
	r.Changes = w.issued.Load() - warmUpEvents
	for i, s := range system.Servers {
		r.Servers = append(r.Servers, r.server(s.Name, empty[i], idle[i], before[i], after[i]))
	}
	return r, nil
}

// spread are the watchers at the members of a cluster: a process for each member.
type spread struct{ loads []*load.Load }

func startSpread(ctx context.Context, programs peer.Programs, system *peer.Peer, w *writer) (*spread, error) {
	s := &spread{}
	for i, m := range system.Members {
		config := w.parameters.share(i, m.Address)
		w.seen = int(w.written[0])
		config.Seen = w.seen
		l, err := load.Start(ctx, programs.Self, config)
		if err != nil {
			s.stop()
			return nil, fmt.Errorf("watch at member %d: %w", i+1, err)
		}
		s.loads = append(s.loads, l)
	}
	return s, nil
}

func (s *spread) stop() {
	for _, l := range s.loads {
		l.Stop()
	}
}

// Await implements audience.
func (s *spread) Await(ctx context.Context, events int64) error {
	for i, l := range s.loads {
		if err := l.Await(ctx, events); err != nil {
			return fmt.Errorf("member %d: %w", i+1, err)
		}
	}
	return nil
}

func (s *spread) reset(ctx context.Context) error {
	for _, l := range s.loads {
		if err := l.Reset(ctx); err != nil {
			return err
		}
	}
	return nil
}

// report adds the counts of all watchers, and the times at the slowest member.
func (s *spread) report(ctx context.Context, r *Record, w *writer) error {
	var counts delivery.Counts
	var slowest *load.Report
	var deliveries, cpu, peak int64
	for i, l := range s.loads {
		report, err := l.Report(ctx, w.written)
		if err != nil {
			return fmt.Errorf("ask the watchers at member %d for a report: %w", i+1, err)
		}
		r.expect(w, r.Parameters.share(i, "").Interests())
		counts.Add(report.Counts)
		r.Ended += report.Ended
		if r.Reason == "" {
			r.Reason = report.Reason
		}
		deliveries += report.Each.Count
		cpu += report.CPU
		peak += report.Peak
		if slowest == nil || report.Each.P99 > slowest.Each.P99 {
			slowest = report
		}
	}
	r.Writes, r.Behind, r.Ack = w.writes.Load(), w.behind.Load(), w.ack.Summary()
	r.Counts, r.Each, r.Last, r.ClientPeak = counts, slowest.Each, slowest.Last, peak
	r.Deliveries = deliveries
	r.PerSecond = float64(deliveries) / r.Elapsed.Seconds()
	r.ClientCPU = float64(cpu) / float64(max(counts.Received, 1))
	return nil
}
