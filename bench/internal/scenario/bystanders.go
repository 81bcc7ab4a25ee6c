package scenario

import (
	"context"
	"fmt"

	"github.com/fanoutd/fanoutd/bench/internal/load"
	"github.com/fanoutd/fanoutd/bench/internal/peer"
)

// bystanders are the watchers of objects that never change. They have a process of their
// own; its load is nil if there are none.
type bystanders struct{ load *load.Load }

func startBystanders(ctx context.Context, programs peer.Programs, system *peer.Peer, p *Parameters) (bystanders, error) {
	if p.Bystanders == 0 {
		return bystanders{}, nil
	}
	l, err := load.Start(ctx, programs.Self, p.bystanders(system.Address))
	if err != nil {
		return bystanders{}, fmt.Errorf("start the bystanders: %w", err)
	}
	return bystanders{l}, nil
}

func (b bystanders) stop() {
	if b.load != nil {
		b.load.Stop()
	}
}

// report adds the events that the bystanders received, which should be none, and the number
// of their watches that ended.
func (b bystanders) report(ctx context.Context, r *Record, written []uint32) error {
	if b.load == nil {
		return nil
	}
	report, err := b.load.Report(ctx, written)
	if err != nil {
		return fmt.Errorf("ask the bystanders for a report: %w", err)
	}
	r.Counts.Foreign += report.Counts.Foreign
	if r.Ended += report.Ended; r.Reason == "" {
		r.Reason = report.Reason
	}
	return nil
}
