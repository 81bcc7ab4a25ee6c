package scenario

import (
	"context"
	"fmt"
	"time"

	"github.com/fanoutd/fanoutd/bench/internal/delivery"
	"github.com/fanoutd/fanoutd/bench/internal/load"
	"github.com/fanoutd/fanoutd/bench/internal/machine"
	"github.com/fanoutd/fanoutd/bench/internal/peer"
)

// Observer follows a run.
type Observer struct {
	Phase   func(name string) // called with the name of each phase
	Profile string            // file for a CPU profile of the measurement; "": none
}

// warmUpWrites is the number of writes before the measurement.
const warmUpWrites = 20

// settle is the pause before the memory of a system is read.
const settle = 500 * time.Millisecond

// Run starts a system, measures it as the parameters say, and ends it.
func Run(ctx context.Context, programs peer.Programs, p Parameters, o Observer) (*Record, error) {
	p.Complete()
	if err := p.Validate(); err != nil {
		return nil, err
	}
	o.Phase("start")
	system, err := peer.Start(ctx, p.Peer, peer.Options{Programs: programs, Config: p.load(""), Window: p.Window, DefaultLimits: p.DefaultLimits, History: p.History})
	if err != nil {
		return nil, err
	}
	defer system.Stop()
	switch p.Scenario {
	case Startup, Resume:
		return storm(ctx, programs, system, p, o)
	case Lists:
		return lists(ctx, programs, system, p, o)
	case Idle:
		return idle(ctx, programs, system, p, o)
	case Open:
		return open(ctx, programs, system, p, o)
	case Calls:
		return calling(ctx, programs, system, p, o)
	case State:
		return state(ctx, programs, system, p, o)
	case ClusterLoad, ClusterFanOut:
		return clusterLoad(ctx, programs, system, p, o)
	case ClusterKill:
		return clusterKill(ctx, programs, system, p, o)
	case ClusterOutage:
		return clusterOutage(ctx, programs, system, p, o)
	}
	return written(ctx, programs, system, p, o)
}

// written measures the delivery of writes.
func written(ctx context.Context, programs peer.Programs, system *peer.Peer, p Parameters, o Observer) (*Record, error) {
	o.Phase("fill")
	w := newWriter(p, system.Writer)
	if err := w.prefill(ctx, system); err != nil {
		return nil, err
	}
	o.Phase("connect")
	others, err := startBystanders(ctx, programs, system, &p)
	if err != nil {
		return nil, err
	}
	defer others.stop()
	empty, err := usage(ctx, system)
	if err != nil {
		return nil, err
	}
	watchers, err := load.Start(ctx, programs.Self, w.config(system.Address))
	if err != nil {
		return nil, err
	}
	defer watchers.Stop()
	w.load = watchers
	idle, err := usage(ctx, system)
	if err != nil {
		return nil, err
	}
	r := newRecord(p, programs)
	o.Phase("warm up")
	if err := w.writeOneByOne(ctx, warmUpWrites); err != nil {
		return nil, fmt.Errorf("warm up: %w", err)
	}
	stalled, err := startStalled(ctx, programs, system, &p)
	if err != nil {
		return nil, err
	}
	defer stalled.stop()
	if err := watchers.Reset(ctx); err != nil {
		return nil, err
	}
	before, err := system.Usage()
	if err != nil {
		return nil, err
	}
	warmUpEvents := w.issued.Load()
	after, err := r.measure(ctx, system, o, func() error {
		err := w.run(ctx)
		if err != nil && ctx.Err() == nil {
			r.Stalled, err = err.Error(), nil
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	var reported []float64
	if p.Reports > 0 {
		if reported, err = system.Reported(ctx); err != nil {
			return nil, err
		}
	}
	o.Phase("report")
	report, err := watchers.Report(ctx, w.written)
	if err != nil {
		return nil, err
	}
	r.addReport(w, report)
	r.Changes = w.issued.Load() - warmUpEvents
	if err := others.report(ctx, r, w.written); err != nil {
		return nil, err
	}
	if err := stalled.report(ctx, r, w.written); err != nil {
		return nil, err
	}
	for i, s := range system.Servers {
		server := r.server(s.Name, empty[i], idle[i], before[i], after[i])
		if reported != nil {
			server.Reported = reported[i]
		}
		r.Servers = append(r.Servers, server)
	}
	return r, nil
}

// measure runs a function and records its duration. It returns the usage of the servers
// afterwards, and writes a profile if the observer asks for one.
func (r *Record) measure(ctx context.Context, system *peer.Peer, o Observer, do func() error) ([]peer.Usage, error) {
	o.Phase("measure")
	profiled := profile(ctx, system, r.Parameters.Duration, o.Profile)
	began := time.Now()
	if err := do(); err != nil {
		return nil, err
	}
	r.Elapsed = time.Since(began)
	after, err := system.Usage()
	if err != nil {
		return nil, err
	}
	return after, <-profiled
}

// resetPeaks resets the peaks of memory.
func resetPeaks(system *peer.Peer) error {
	for _, s := range system.Servers {
		if err := s.ResetPeak(); err != nil {
			return err
		}
	}
	return nil
}

// profile starts a profile, if path is set. The result receives a value when the profile is
// complete.
func profile(ctx context.Context, system *peer.Peer, duration time.Duration, path string) <-chan error {
	done := make(chan error, 1)
	if path == "" {
		close(done)
		return done
	}
	go func() { done <- system.ProfileCPU(ctx, duration, path) }()
	return done
}

func newRecord(p Parameters, programs peer.Programs) *Record {
	return &Record{Time: time.Now().UTC(), Machine: machine.This(programs.Fanoutd), Parameters: p, Notes: notes}
}

// notes sets the fields that explain the figures.
var notes = []string{
	"all stores are on tmpfs if the machine has one, and do not wait for disks (etcd: --unsafe-no-fsync, except in clusters)",
	"CPU is that of the server processes, including what they do when idle",
}

// usage returns the usage of the servers and their goroutines, once they are quiet. To count those
// costs CPU afterwards, so what is measured begins with another call of [peer.Peer.Usage].
func usage(ctx context.Context, system *peer.Peer) ([]peer.Usage, error) {
	if err := wait(ctx, settle); err != nil {
		return nil, err
	}
	all, err := system.Usage()
	if err != nil {
		return nil, err
	}
	return all, system.CountGoroutines(ctx, all)
}

// addReport adds the counts and times of the watchers and the writer.
func (r *Record) addReport(w *writer, report *load.Report) {
	r.expect(w, r.Parameters.load("").Interests())
	r.Writes, r.Behind = w.writes.Load(), w.behind.Load()
	r.Counts, r.Each, r.Last, r.Ack = report.Counts, report.Each, report.Last, w.ack.Summary()
	r.Ended, r.Reason, r.ClientPeak = report.Ended, report.Reason, report.Peak
	r.Deliveries = report.Each.Count
	if r.Deliveries == 0 {
		return
	}
	r.PerSecond = float64(r.Deliveries) / r.Elapsed.Seconds()
	r.ClientCPU = float64(report.CPU) / float64(max(r.Counts.Received, 1))
}

// expect adds the deliveries to watchers with these interests.
func (r *Record) expect(w *writer, interests []delivery.Interest) {
	for _, interest := range interests {
		for slot := range interest.Count {
			r.Expected += int64(w.written[interest.Key(slot)]) - int64(w.seen)
		}
	}
}

func (r *Record) server(name string, empty, idle, before, after peer.Usage) Server {
	n, watchers := float64(max(r.Deliveries, 1)), float64(max(r.Parameters.Watchers, 1))
	return Server{
		Name:     name,
		CPU:      float64((after.CPU - before.CPU).Microseconds()) / n,
		Writes:   float64(after.Writes-before.Writes) / n,
		Bytes:    float64(after.Bytes-before.Bytes) / n,
		Total:    (after.CPU - before.CPU).Microseconds(),
		Peak:     after.Peak,
		RSSEmpty: empty.RSS, RSSIdle: idle.RSS, RSSEnd: after.RSS,
		AnonEmpty: empty.Anon, AnonIdle: idle.Anon, AnonEnd: after.Anon,
		RSSBefore:  before.RSS,
		PerWatcher: float64(idle.RSS-empty.RSS) / watchers,
		Goroutines: (idle.Goroutines - empty.Goroutines) / watchers,
	}
}
