package scenario

import (
	"context"
	"time"

	"github.com/fanoutd/fanoutd/bench/internal/calls"
	"github.com/fanoutd/fanoutd/bench/internal/peer"
)

// warmUp is the time of the calls before the measurement.
const warmUp = time.Second

// calling measures unary calls as fast as they are answered. A delivery is a call.
func calling(ctx context.Context, programs peer.Programs, system *peer.Peer, p Parameters, o Observer) (*Record, error) {
	o.Phase("fill")
	if system.Writer != nil {
		if err := newWriter(p, system.Writer).fill(ctx); err != nil {
			return nil, err
		}
	}
	o.Phase("connect")
	empty, err := usage(ctx, system)
	if err != nil {
		return nil, err
	}
	caller, err := calls.Start(ctx, programs.Self, p.calls(system.Address))
	if err != nil {
		return nil, err
	}
	defer caller.Stop()
	o.Phase("warm up")
	if _, err := caller.For(ctx, min(warmUp, p.Duration)); err != nil {
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
	var report *calls.Report
	after, err := r.measure(ctx, system, o, func() (err error) {
		report, err = caller.For(ctx, p.Duration)
		return err
	})
	if err != nil {
		return nil, err
	}
	r.Elapsed = report.Elapsed
	r.Each, r.Deliveries = report.Each, report.Each.Count
	r.PerSecond = float64(r.Deliveries) / r.Elapsed.Seconds()
	r.ClientCPU = float64(report.CPU) / float64(max(r.Deliveries, 1))
	for i, s := range system.Servers {
		r.Servers = append(r.Servers, r.server(s.Name, empty[i], empty[i], before[i], after[i]))
	}
	return r, nil
}

// calls returns the configuration of the process that makes the calls.
func (p *Parameters) calls(address string) calls.Config {
	protocol, _ := peer.Protocol(p.Peer) // checked before
	return calls.Config{
		Protocol: protocol, Address: address, Method: p.Method,
		Connections: p.Connections, InFlight: p.Outstanding, Keys: p.Keys, ValueSize: p.ValueSize,
	}
}
