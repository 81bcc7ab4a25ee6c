package watch

import (
	"cmp"
	"context"
	"errors"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/access/policy"
	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/server/apierr"
	"github.com/fanoutd/fanoutd/internal/server/backend"
	"github.com/fanoutd/fanoutd/internal/server/request"
	"github.com/fanoutd/fanoutd/internal/server/rpc"
)

// Config configures the watches of a server. TimeLimit and Grace are optional.
type Config struct {
	Resources    backend.Resources
	Interceptors *rpc.Interceptors // with rights, limits and logs

	// TimeLimit is the longest time that a watch lasts. 0: no limit.
	TimeLimit time.Duration

	// Grace is how long a watch that has to end may take to send its last messages. After
	// that time the server cuts off the stream. Default 30 s.
	Grace time.Duration
}

const defaultGrace = 30 * time.Second

// Service serves the Watch method.
type Service struct {
	cfg      Config
	Registry *Registry
	counters map[string][]counters // by resource and worker
	queues   *connQueues
	ending   dispatch.Turns // turns of the handlers that end their watches

	counting      sync.Mutex   // held by CountApplied
	appliedCounts atomic.Int64 // calls of CountApplied

	background     sync.WaitGroup
	stopBackground context.CancelFunc
}

// New returns a service. The caller must stop it.
func New(cfg Config) *Service {
	cfg.Grace = cmp.Or(cfg.Grace, defaultGrace)
	s := &Service{cfg: cfg, Registry: newRegistry(), counters: map[string][]counters{}, queues: newConnQueues(), ending: dispatch.NewTurns()}
	for name := range cfg.Resources {
		s.counters[name] = make([]counters, s.queues.workers.Len())
	}
	ctx, stop := context.WithCancel(context.Background())
	s.stopBackground = stop
	memory := &reclaim{begunAndEnded: s.Registry.begunAndEnded.Load, active: s.Registry.registered, free: debug.FreeOSMemory}
	s.background.Go(func() { memory.run(ctx) })
	s.background.Go(func() { s.Registry.garbage.serve(ctx) })
	s.background.Go(func() { s.checkFences(ctx) })
	return s
}

// Drain refuses new watches and ends the present ones, spread over the period. Each
// connection gets a GOAWAY before its watches end, and each watch ends with its last
// position. Drain returns when it has told the last watch to end, or earlier if all watches have
// gone or ctx is done. It does not wait for clients that do not read.
func (s *Service) Drain(ctx context.Context, period time.Duration) { s.Registry.drain(ctx, period) }

// WaitToDrain waits for the given time or until ctx is done. It uses the same clock as Drain.
func (s *Service) WaitToDrain(ctx context.Context, d time.Duration) {
	clock := s.Registry.clock
	clock.Wait(ctx, clock.Now().Add(d), nil)
}

// EndAll refuses new watches, ends the present ones at once, and waits until none is left. A
// watch whose client does not read stays until the caller closes the connection.
func (s *Service) EndAll() { s.Registry.endAll() }

// Stop stops the workers and the background goroutines. Call it after all handlers have
// returned.
func (s *Service) Stop() {
	s.queues.workers.Stop()
	s.stopBackground()
	s.background.Wait()
}

// Reexamine ends the watches whose credentials or rights are lost, with the error that a new
// watch would get. It returns the number of watches that it ended.
func (s *Service) Reexamine() int { return s.Registry.reexamine(s.examine) }

// examine returns nil if the credentials and rights of a watch are still valid, and otherwise
// the error for the client.
func (s *Service) examine(e *Entry) error {
	if err := e.pass.Check(); err != nil {
		return err
	}
	return s.cfg.Interceptors.Rights.Examine(*e.identity, policy.Question{Verb: policy.Watch, Resource: e.resource.Name, Scope: e.scope})
}

// Parse checks whether the caller may have a watch, and parses the request for it.
func (s *Service) Parse(ctx context.Context, req *fanoutv1.WatchRequest) (*backend.Resource, request.Watch, error) {
	target := request.ParseTarget(req)
	if err := s.cfg.Interceptors.Rights.MayRead(ctx, policy.Watch, target); err != nil {
		return nil, request.Watch{}, err
	}
	resource, err := s.cfg.Resources.Find(target.Resource)
	if err != nil {
		return nil, request.Watch{}, err
	}
	watch, err := request.ParseWatch(target, req, resource.Fields, resource.Codec)
	return resource, watch, err
}

// CountBegun counts a watch of a Subscribe stream that the worker serves.
func (s *Service) CountBegun(resource string, worker int) {
	s.counters[resource][worker].begun.Add(1)
	s.Registry.CountBegun(resource)
}

// CountSent counts a message for n watches of a Subscribe stream that the worker serves. It took
// some bytes altogether. The argument first reports whether it is the first message of these
// watches.
func (s *Service) CountSent(resource string, worker int, m *dispatch.Message, n, bytes int, first bool, now time.Time) {
	s.counters[resource][worker].note(m, n, bytes, first, now)
}

// CountReportedError counts an error that the client of a watch of a Subscribe stream has
// reported.
func (s *Service) CountReportedError(resource string, worker int) {
	s.counters[resource][worker].reportedErrors.Add(1)
}

// GraceAfter returns how long a stream that ends for the reason may take to send its last
// messages. It returns 0 if there is no limit: when the server stops, it closes the
// connections of clients that do not read.
func (s *Service) GraceAfter(reason error) time.Duration {
	switch {
	case errors.Is(reason, apierr.ErrDraining):
		return 0
	case apierr.IsDenied(reason), apierr.IsBadCredentials(reason):
		return min(s.cfg.Grace, deniedGrace)
	}
	return s.cfg.Grace
}

// checkFences looks for overdue write fences at intervals, until ctx is done.
func (s *Service) checkFences(ctx context.Context) {
	ticker := time.NewTicker(fenceTimeout / 4)
	defer ticker.Stop()
	for {
		select {
		case now := <-ticker.C:
			s.Registry.each(func(e *Entry) { e.sender.CheckFence(now) })
			for stream := range s.Registry.openStreams() {
				stream.CheckFence(now)
			}
		case <-ctx.Done():
			return
		}
	}
}
