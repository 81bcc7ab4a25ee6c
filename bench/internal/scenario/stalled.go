package scenario

import (
	"context"
	"fmt"

	"github.com/fanoutd/fanoutd/bench/internal/load"
	"github.com/fanoutd/fanoutd/bench/internal/peer"
)

// stalled are the watchers that do not read, in a process of their own; its load is nil
// where there are none.
type stalled struct{ load *load.Load }

func stall(ctx context.Context, programs peer.Programs, system *peer.Peer, p *Parameters) (stalled, error) {
	if p.Stalled == 0 {
		return stalled{}, nil
	}
	l, err := load.Start(ctx, programs.Self, p.stalled(system.Address))
	if err != nil {
		return stalled{}, fmt.Errorf("let watchers stall: %w", err)
	}
	return stalled{l}, nil
}

func (s stalled) stop() {
	if s.load != nil {
		s.load.Stop()
	}
}

// report says what became of them. What they have received does not count.
func (s stalled) report(ctx context.Context, r *Record, written []uint32) error {
	if s.load == nil {
		return nil
	}
	report, err := s.load.Report(ctx, written)
	if err != nil {
		return fmt.Errorf("ask those who stall: %w", err)
	}
	r.Returned, r.Gone = report.Returned, report.Ended
	return nil
}
