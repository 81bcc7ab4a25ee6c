package watch

import (
	"cmp"
	"context"
	"runtime/debug"
	"sync"
	"time"

	"github.com/fanoutd/fanoutd/internal/server/backend"
	"github.com/fanoutd/fanoutd/internal/server/rpc"
)

// Config is what the watches of a server need. Grace is optional.
type Config struct {
	Resources    backend.Resources
	Interceptors *rpc.Interceptors // with rights, limits and logs

	// TimeLimit is the longest time a watch lasts. 0: no limit.
	TimeLimit time.Duration

	// Grace is how long a watch that has to end may take to send its last position. After
	// that its stream ends without it. Default 30 s.
	Grace time.Duration
}

const defaultGrace = 30 * time.Second

// Service serves the Watch method.
type Service struct {
	cfg      Config
	Registry *Registry
	counters map[string][]counters // by resource and worker
	queues   *connQueues

	background     sync.WaitGroup
	stopBackground context.CancelFunc
}

// New returns a service, which must be stopped.
func New(cfg Config) *Service {
	cfg.Grace = cmp.Or(cfg.Grace, defaultGrace)
	s := &Service{cfg: cfg, Registry: newRegistry(), counters: map[string][]counters{}, queues: newConnQueues()}
	for name := range cfg.Resources {
		s.counters[name] = make([]counters, s.queues.workers.Len())
	}
	ctx, stop := context.WithCancel(context.Background())
	s.stopBackground = stop
	memory := &reclaim{begunAndEnded: s.Registry.begunAndEnded.Load, active: s.Registry.len, free: debug.FreeOSMemory}
	s.background.Go(func() { memory.run(ctx) })
	s.background.Go(func() { s.checkFences(ctx) })
	return s
}

// Drain refuses new watches and ends the present ones, spread over the period, each with its
// last position. It returns when all have been asked to end, none is left, or ctx is done.
func (s *Service) Drain(ctx context.Context, period time.Duration) { s.Registry.endSpread(ctx, period) }

// WaitToDrain waits for the given time or until ctx is done, by the clock of Drain.
func (s *Service) WaitToDrain(ctx context.Context, d time.Duration) {
	clock := s.Registry.clock
	clock.Wait(ctx, clock.Now().Add(d), nil)
}

// End refuses new watches, ends the present ones and waits for them. To end watches whose
// clients do not read, the caller closes their connections.
func (s *Service) End() { s.Registry.endAll() }

// Stop stops the workers and the background goroutines. Call it after all handlers have
// returned.
func (s *Service) Stop() {
	s.queues.workers.Stop()
	s.stopBackground()
	s.background.Wait()
}

// Reexamine ends the watches whose credentials or rights are gone, with the error that a new
// watch would get, and returns how many.
func (s *Service) Reexamine() int { return s.Registry.reexamine(s.examine) }

// examine returns why a watch may not continue, or nil.
func (s *Service) examine(e *Entry) error {
	if err := e.pass.Check(); err != nil {
		return err
	}
	return s.cfg.Interceptors.Rights.Examine(*e.identity, e.question)
}

// checkFences looks for overdue write fences until ctx is done.
func (s *Service) checkFences(ctx context.Context) {
	ticker := time.NewTicker(fenceTimeout / 4)
	defer ticker.Stop()
	for {
		select {
		case now := <-ticker.C:
			for _, e := range s.Registry.all() {
				e.sender.checkFence(now)
			}
		case <-ctx.Done():
			return
		}
	}
}
