package scenario

import (
	"context"
	"fmt"

	"github.com/fanoutd/fanoutd/bench/internal/load"
	"github.com/fanoutd/fanoutd/bench/internal/peer"
)

// stalled are the watchers that do not read. They have a process of their own; its load is
// nil if there are none.
type stalled struct{ load *load.Load }

func startStalled(ctx context.Context, programs peer.Programs, system *peer.Peer, p *Parameters) (stalled, error) {
	if p.Stalled == 0 {
		return stalled{}, nil
	}
	l, err := load.Start(ctx, programs.Self, p.stalled(system.Address))
	if err != nil {
		return stalled{}, fmt.Errorf("start the stalled watchers: %w", err)
	}
	return stalled{l}, nil
}

func (s stalled) stop() {
	if s.load != nil {
		s.load.Stop()
	}
}

// report adds the outcome of the stalled watchers. The events that they received do not count.
func (s stalled) report(ctx context.Context, r *Record, written []uint32) error {
	if s.load == nil {
		return nil
	}
	report, err := s.load.Report(ctx, written)
	if err != nil {
		return fmt.Errorf("ask the stalled watchers for a report: %w", err)
	}
	r.Returned, r.Gone = report.Returned, report.Ended
	return nil
}
