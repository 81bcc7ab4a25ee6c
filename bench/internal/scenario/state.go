package scenario

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fanoutd/fanoutd/bench/internal/peer"
)

const (
	// fillers is the number of transactions in flight while the objects are written.
	fillers = 8
	// manyObjects is the number of objects from which on a server needs time to return memory.
	manyObjects = 100_000
)

// state measures the memory of servers with many objects, before and after a restart of the front
// server. The measured time is that from its start to a linearizable read of the last object.
func state(ctx context.Context, programs peer.Programs, system *peer.Peer, p Parameters, o Observer) (*Record, error) {
	o.Phase("fill")
	empty, err := usage(ctx, system)
	if err != nil {
		return nil, err
	}
	if err := fillQuickly(ctx, p, system); err != nil {
		return nil, err
	}
	if err := wait(ctx, p.settlingState()); err != nil {
		return nil, err
	}
	filled, err := usage(ctx, system)
	if err != nil {
		return nil, err
	}
	running, err := system.Usage() // without the reading of metrics
	if err != nil {
		return nil, err
	}
	o.Phase("stop")
	system.StopFront()
	for _, s := range system.Servers[:len(system.Servers)-1] {
		if err := s.ResetPeak(); err != nil {
			return nil, err
		}
	}
	r := newRecord(p, programs)
	o.Phase("start")
	began := time.Now()
	if err := system.Restart(ctx, p.Keys-1); err != nil {
		return nil, err
	}
	r.Elapsed = time.Since(began)
	started, err := system.Usage()
	if err != nil {
		return nil, err
	}
	if err := wait(ctx, p.settlingState()); err != nil {
		return nil, err
	}
	after, err := usage(ctx, system)
	if err != nil {
		return nil, err
	}
	for i, s := range system.Servers {
		before := running[i]
		if i == len(system.Servers)-1 {
			before.CPU = 0 // the process is new
		}
		server := r.server(s.Name, empty[i], filled[i], before, started[i])
		server.RSSEnd, server.AnonEnd = after[i].RSS, after[i].Anon
		r.Servers = append(r.Servers, server)
	}
	return r, nil
}

// settlingState returns how long a server may take to return memory.
func (p *Parameters) settlingState() time.Duration {
	if p.Keys < manyObjects {
		return 0
	}
	return 15 * time.Second
}

// fillQuickly writes all objects, and waits until the front server has them.
func fillQuickly(ctx context.Context, p Parameters, system *peer.Peer) error {
	var group errgroup.Group
	for worker := range fillers {
		group.Go(func() error {
			for first := worker * largestBatch; first < p.Keys; first += fillers * largestBatch {
				var changes []peer.Change
				for key := first; key < min(first+largestBatch, p.Keys); key++ {
					changes = append(changes, peer.Change{Key: key, Value: blank(p.ValueSize)})
				}
				if err := system.Writer.Write(ctx, changes); err != nil {
					return fmt.Errorf("write the objects: %w", err)
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	// The position comes from a linearizable read, so it covers all writes.
	if _, err := system.Positions.Position(ctx); err != nil {
		return fmt.Errorf("wait for the objects: %w", err)
	}
	return nil
}
