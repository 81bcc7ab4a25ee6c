package registry

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fanoutd/fanoutd/internal/access"
	"github.com/fanoutd/fanoutd/internal/server/apierr"
	"github.com/fanoutd/fanoutd/internal/server/backend"
	"github.com/fanoutd/fanoutd/internal/server/grpcmsg"
	"github.com/fanoutd/fanoutd/internal/server/rpc"
)

// Config configures the watches of a server. TimeLimit and Grace are optional.
type Config struct {
	Resources    backend.Resources
	Interceptors *rpc.Interceptors // with rights, limits and logs

	// TimeLimit is the longest time that an RPC with watches lasts. 0: no limit.
	TimeLimit time.Duration

	// Grace is how long an RPC that has to end may take to send its last messages. After
	// that time the server cuts off the stream. Default 30 s.
	Grace time.Duration
}

const defaultGrace = 30 * time.Second

// Registry has all watches of a server, whatever entrance they came through. An RPC is registered
// before its watches are admitted, and stays registered until its end, so a drain ends every watch.
type Registry struct {
	Interceptors *rpc.Interceptors
	Queues       *Queues

	resources backend.Resources
	timeLimit time.Duration
	grace     time.Duration

	prefix   string // first part of all ids; random, so it differs between servers and changes with a restart
	tokens   tokens // of the watches
	clock    DrainClock
	counters map[string][]Counters     // by resource and worker
	counts   map[string]*resourceCount // by resource

	memory *memory

	counting      sync.Mutex   // held by CountApplied
	appliedCounts atomic.Int64 // calls of CountApplied

	background     sync.WaitGroup
	stopBackground context.CancelFunc

	mu       sync.Mutex
	latest   uint64            // guarded by mu: the highest number
	rpcs     List[uint64, RPC] // guarded by mu
	draining bool              // guarded by mu: no watch may begin
	empty    chan struct{}     // closed when draining is set and nothing is registered
}

// New returns a registry. The caller must stop it.
func New(cfg Config) *Registry {
	r := newRegistry(cfg)
	r.Queues = newQueues()
	for name := range cfg.Resources {
		r.counters[name] = make([]Counters, r.Queues.workers.Len())
	}
	ctx, stop := context.WithCancel(context.Background())
	r.stopBackground = stop
	r.background.Go(func() { r.memory.run(ctx) })
	r.background.Go(func() { r.checkFences(ctx) })
	return r
}

// newRegistry returns a registry without goroutines.
func newRegistry(cfg Config) *Registry {
	r := &Registry{
		Interceptors: cfg.Interceptors, resources: cfg.Resources, timeLimit: cfg.TimeLimit, grace: cmp.Or(cfg.Grace, defaultGrace),
		prefix: fmt.Sprintf("%012x", rand.Uint64()>>16), tokens: newTokens(), clock: realClock{},
		counters: map[string][]Counters{}, counts: map[string]*resourceCount{}, empty: make(chan struct{}),
	}
	for name := range cfg.Resources {
		r.counts[name] = &resourceCount{}
	}
	r.memory = newMemory(r.countAll)
	return r
}

// Stop stops the workers and the background goroutines. Call it after all handlers have
// returned.
func (r *Registry) Stop() {
	r.Queues.workers.Stop()
	r.stopBackground()
	r.background.Wait()
}

// Register adds an RPC, which the caller must unregister. The registry may end it on any goroutine,
// and even after it was unregistered. The registry ends it with [access.ErrExpired] when its credentials
// expire. If the server drains, Register returns [apierr.ErrDraining], and
// the client tries again on another connection.
func (r *Registry) Register(one RPC) error {
	c := one.Caller()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.draining {
		c.goAway()
		return apierr.ErrDraining
	}
	r.latest++
	c.registry, c.number = r, r.latest
	r.rpcs.Set(c.number, one)
	if expires := c.Pass.Expires; !expires.IsZero() {
		c.timers.after(time.Until(expires), func() { one.EndAll(access.ErrExpired) })
	}
	return nil
}

// Unregister removes an RPC that has ended. It has no effect if the RPC was never registered.
func (r *Registry) Unregister(one RPC) {
	one.Caller().timers.stop()
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.rpcs.Delete(one.Caller().number); ok {
		r.checkEmpty()
	}
}

// checkEmpty is called with mu held when the server begins to drain, and when an RPC was removed.
func (r *Registry) checkEmpty() {
	if r.draining && r.rpcs.Len() == 0 {
		close(r.empty)
	}
}

// ServerID returns the part of each watch's id that names this server.
func (r *Registry) ServerID() string { return r.prefix }

// Number identifies a watch of a server. Later RPCs have higher numbers, and so have later
// watches of an RPC.
type Number struct {
	RPC   uint64
	Index uint32 // of a watch of an RPC that may carry many, from 1 on; 0: the RPC is a Watch
}

// Compare orders numbers.
func (n Number) Compare(m Number) int {
	return cmp.Or(cmp.Compare(n.RPC, m.RPC), cmp.Compare(n.Index, m.Index))
}

// ID returns the id of the watch with a number, as operators see it.
func (r *Registry) ID(n Number) string {
	id := r.prefix + "-" + strconv.FormatUint(n.RPC, 10)
	if n.Index > 0 {
		id += "." + strconv.FormatUint(uint64(n.Index), 10)
	}
	return id
}

// IDOf returns the id of a watch.
func IDOf(w Watch) string { return w.Caller().registry.ID(w.Number()) }

// Number returns the number in the id of a watch, or false if no watch of this server can have
// that id.
func (r *Registry) Number(id string) (n Number, ok bool) {
	prefix, digits, ok := strings.Cut(id, "-")
	if !ok || prefix != r.prefix {
		return Number{}, false
	}
	digits, index, ofStream := strings.Cut(digits, ".")
	var err error
	if n.RPC, err = strconv.ParseUint(digits, 10, 64); err != nil {
		return Number{}, false
	}
	if ofStream {
		i, err := strconv.ParseUint(index, 10, 32)
		if err != nil || i == 0 {
			return Number{}, false
		}
		n.Index = uint32(i)
	}
	return n, true
}

// Find returns the watch with the id that has begun, or nil.
func (r *Registry) Find(id string) Watch {
	if n, ok := r.Number(id); ok {
		return r.At(n)
	}
	return nil
}

// At returns the watch with the number that has begun, or nil.
func (r *Registry) At(n Number) Watch {
	if found := r.rpcAt(n.RPC); found != nil {
		return found.Find(n.Index)
	}
	return nil
}

// rpcAt returns the RPC with the number, or nil.
func (r *Registry) rpcAt(number uint64) RPC {
	r.mu.Lock()
	defer r.mu.Unlock()
	found, _ := r.rpcs.Get(number)
	return found
}

// FindByToken returns the watch with the token that has begun, or nil.
func (r *Registry) FindByToken(token string) Watch {
	if n, ok := r.tokens.number(token); ok {
		return r.At(Number{RPC: n})
	}
	return nil
}

// After returns the watches of some resources that have begun and have higher numbers than the given
// one, in the order of their numbers. Watches with lower numbers cost nothing.
func (r *Registry) After(n Number, resources ...string) iter.Seq[Watch] {
	return func(yield func(Watch) bool) {
		yieldOf := func(w Watch) bool { return !slices.Contains(resources, w.Resource()) || yield(w) }
		r.rpcs.Each(&r.mu, n.RPC, func(one RPC) bool {
			switch {
			case one.Caller().number > n.RPC:
				return one.Each(0, yieldOf)
			case n.Index == math.MaxUint32:
				return true
			}
			return one.Each(n.Index+1, yieldOf)
		})
	}
}

// eachWatch calls a function for each watch that has begun, without the lock.
func (r *Registry) eachWatch(do func(Watch)) {
	yield := func(w Watch) bool { do(w); return true }
	r.rpcs.Each(&r.mu, 0, func(one RPC) bool { return one.Each(0, yield) })
}

// checkFences looks for overdue write fences at intervals, until ctx is done.
func (r *Registry) checkFences(ctx context.Context) {
	ticker := time.NewTicker(grpcmsg.FenceTimeout / 4)
	defer ticker.Stop()
	for {
		select {
		case now := <-ticker.C:
			r.rpcs.Each(&r.mu, 0, func(one RPC) bool { one.CheckFence(now); return true })
		case <-ctx.Done():
			return
		}
	}
}
