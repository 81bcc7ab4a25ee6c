package watch

import (
	"cmp"
	"context"
	"runtime/debug"
	"sync"
	"time"

	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/server/backend"
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
	return s.cfg.Interceptors.Rights.Examine(*e.identity, e.question)
}

// checkFences looks for overdue write fences at intervals, until ctx is done.
func (s *Service) checkFences(ctx context.Context) {
	ticker := time.NewTicker(fenceTimeout / 4)
	defer ticker.Stop()
	for {
		select {
		case now := <-ticker.C:
			for _, e := range s.Registry.completeEntries() {
				e.sender.checkFence(now)
			}
		case <-ctx.Done():
			return
		}
	}
}
