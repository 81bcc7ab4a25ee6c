package server

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	middleware "github.com/grpc-ecosystem/go-grpc-middleware/v2"
	"google.golang.org/grpc"

	"github.com/fanoutd/fanoutd/internal/server/apierr"
	"github.com/fanoutd/fanoutd/internal/server/rpc"
)

// drain ends the streams of a server that stops: watches first, each with its
// last position, then those of other services, such as health, which would
// otherwise stay for as long as their clients like.
type drain struct {
	clock     drainClock
	others    context.Context // done when all streams but watches have to end
	endOthers context.CancelFunc

	mu     sync.Mutex
	begun  bool              // guarded by mu
	latest uint64            // guarded by mu: the number of the watch that began last
	active map[uint64]func() // guarded by mu; what ends the watches that there are, by number
	empty  chan struct{}     // closed when it has begun and there is no watch
}

// drainClock is the time by which watches are ended. A test has its own.
type drainClock interface {
	// Now returns the present time.
	Now() time.Time
	// Wait returns at the time, or when ctx or the channel is done, and reports
	// whether it was the time.
	Wait(ctx context.Context, until time.Time, done <-chan struct{}) bool
}

// drainGap is how far apart the ends of two watches are at most. A few watches need
// no time: nobody is hurt when a hundred come back within a second.
const drainGap = 10 * time.Millisecond

func newDrain() *drain {
	d := &drain{clock: realClock{}, active: map[uint64]func(){}, empty: make(chan struct{})}
	d.others, d.endOthers = context.WithCancel(context.Background())
	return d
}

// enter counts a watch, unless it comes too late: then its number is 0. Who has entered
// must leave. What ends the watch may be called at any time until it has left.
func (d *drain) enter(end func()) (number uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.begun {
		return 0
	}
	d.latest++
	d.active[d.latest] = end
	return d.latest
}

func (d *drain) leave(number uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.active, number)
	if d.begun && len(d.active) == 0 {
		close(d.empty)
	}
}

// begin refuses new watches from now on, and returns the numbers of those that there
// are, in the order in which they have begun.
func (d *drain) begin() []uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.begun {
		d.begun = true
		if len(d.active) == 0 {
			close(d.empty)
		}
	}
	numbers := make([]uint64, 0, len(d.active))
	for n := range d.active {
		numbers = append(numbers, n)
	}
	slices.SortFunc(numbers, cmp.Compare)
	return numbers
}

// endOne ends a watch that has not left yet.
func (d *drain) endOne(number uint64) {
	d.mu.Lock()
	end := d.active[number]
	d.mu.Unlock()
	if end != nil {
		end()
	}
}

// spread refuses new watches, and tells those that there are to end, evenly over the
// period: each in a slice of it, at a random moment. It returns when all were told,
// none is left, or ctx is done. It does not wait for those whose clients do not read.
func (d *drain) spread(ctx context.Context, period time.Duration) {
	numbers := d.begin()
	count := time.Duration(len(numbers))
	period = min(period, count*drainGap)
	began := d.clock.Now()
	for i, number := range numbers {
		slice := period / count
		at := began.Add(period*time.Duration(i)/count + rand.N(max(slice, 1)))
		if !d.clock.Wait(ctx, at, d.empty) {
			return
		}
		d.endOne(number)
	}
}

// end ends all streams. It returns when the watches have ended; cutting off the
// connections ends those whose clients do not read.
func (d *drain) end() {
	for _, number := range d.begin() {
		d.endOne(number)
	}
	<-d.empty
	d.endOthers()
}

// realClock is the time of the world.
type realClock struct{}

func (realClock) Now() time.Time { return time.Now() }

func (realClock) Wait(ctx context.Context, until time.Time, done <-chan struct{}) bool {
	left := time.Until(until)
	if left <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-done:
	case <-ctx.Done():
	}
	return false
}

// intercept gives streams an end. Watches are not behind it: they are told to end.
func (d *drain) intercept(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	if rpc.IsUnary(info) {
		return handler(srv, stream)
	}
	client := stream.Context()
	ctx, cancel := context.WithCancel(client)
	defer cancel()
	defer context.AfterFunc(d.others, cancel)()
	wrapped := middleware.WrapServerStream(stream)
	wrapped.WrappedContext = ctx
	err := handler(srv, wrapped)
	if err != nil && ctx.Err() != nil && client.Err() == nil {
		return apierr.ErrDraining // the client has not cancelled and is not to be told so
	}
	return err
}
