package dispatch_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/dispatch/catchup"
	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/sendqueue"
)

// crowd has watchers that one worker serves.
type crowd struct {
	members  []*member
	received sync.WaitGroup // members that have not received a batch since the call of after

	mu     sync.Mutex
	counts []int     // guarded by mu: arguments of CountSent
	order  []*member // guarded by mu: the members that received a batch
	far    int       // guarded by mu: batches sent without a prefetch

	each func(*member, *feed.Batch) // called instead of received.Done; nil: none
}

// member is a watch of a crowd and the sink of its stream. Its fields belong to the worker.
type member struct {
	*dispatch.Stream
	dispatch.StreamWatch
	crowd *crowd
	queue *sendqueue.Queue
	waits chan struct{} // closed when the worker has the watch
	last  *feed.Batch
	near  bool // prefetched since the last batch
	full  bool // has no room for a batch

	acquires atomic.Int32 // calls of AcquireSlot

	gone  bool // closed
	ended error
	done  chan struct{} // closed when Serve has returned
}

// gather returns watchers, each with one of the options, that have received their first
// bookmark and wait. A hundred share a queue.
func (f *fixture) gather(t testing.TB, count int, i feed.Interest, options ...dispatch.Options) *crowd {
	t.Helper()
	c := &crowd{}
	var q *sendqueue.Queue
	for n := range count {
		if n%100 == 0 {
			q = f.workers.NewQueue()
		}
		c.members = append(c.members, f.join(t, c, q, i, options[n%len(options)]))
	}
	return c
}

// join returns a watch that has received its first bookmark and waits.
func (f *fixture) join(t testing.TB, c *crowd, q *sendqueue.Queue, i feed.Interest, o dispatch.Options) *member {
	t.Helper()
	return f.joinInOrder(t, c, q, i, o, 0)
}

// joinInOrder is join with StreamConfig.Order.
func (f *fixture) joinInOrder(t testing.TB, c *crowd, q *sendqueue.Queue, i feed.Interest, o dispatch.Options, order uint32) *member {
	t.Helper()
	m := &member{crowd: c, queue: q, waits: make(chan struct{}), done: make(chan struct{})}
	m.Stream = dispatch.NewStream(dispatch.StreamConfig{Queue: q, Sink: m, Solo: true, Order: order, LastBookmark: o.LastBookmark})
	m.Start(f.dispatcher, &m.StreamWatch, i, catchup.FromNow(f.cacher.State().Position()), o)
	go func() {
		defer close(m.done)
		m.ended = m.Serve()
	}()
	t.Cleanup(m.leave)
	<-m.waits
	for !m.IsMember() {
		f.wait()
	}
	return m
}

// leave ends the watch.
func (m *member) leave() {
	if m.gone {
		return
	}
	m.gone = true
	m.Abort(context.Canceled)
	<-m.done
}

// after calls a function, and returns when every member has received a batch.
func (c *crowd) after(do func()) {
	c.received.Add(len(c.members))
	do()
	c.received.Wait()
}

// HasRoom implements [dispatch.StreamSink].
func (m *member) HasRoom() bool { return !m.full }

// TakesBatch implements [dispatch.StreamSink].
func (m *member) TakesBatch() bool { return !m.full }

// AcquireSlot implements [dispatch.StreamSink].
func (m *member) AcquireSlot(context.Context, bool) error {
	m.acquires.Add(1)
	return nil
}

// HoldsSlot implements [dispatch.StreamSink].
func (m *member) HoldsSlot() bool { return true }

// ReleaseSlot implements [dispatch.StreamSink].
func (m *member) ReleaseSlot() {}

// Size implements [dispatch.StreamSink].
func (m *member) Size(*feed.Batch) int { return 0 }

// Prefetch implements [dispatch.StreamSink].
func (m *member) Prefetch() int {
	m.near = true
	return 1
}

// Send implements [dispatch.StreamSink].
func (m *member) Send(*dispatch.Response) error { panic("the sink never needs Serve") }

// TrySend implements [dispatch.StreamSink].
func (m *member) TrySend(r *dispatch.Response, now time.Time) error {
	for _, e := range r.Entries {
		switch {
		case e.Batch == nil:
		case !e.First:
			m.receive(e.Batch)
		case e.Batch.Header.Kind != object.Bookmark:
			panic("the first message is no bookmark")
		default:
			close(m.waits)
		}
	}
	return nil
}

// SendBatch implements [dispatch.StreamSink].
func (m *member) SendBatch(b dispatch.MemberBatch, _ time.Time) (bytes int, err error) {
	m.receive(b.Batch)
	return b.Batch.Size(), nil
}

// CountSent implements [dispatch.StreamSink].
func (m *member) CountSent(_ *dispatch.Dispatcher, _ *feed.Batch, n, _ int, _ time.Time) {
	m.crowd.mu.Lock()
	defer m.crowd.mu.Unlock()
	m.crowd.counts = append(m.crowd.counts, n)
}

func (m *member) receive(b *feed.Batch) {
	m.last = b
	c := m.crowd
	c.mu.Lock()
	if !m.near {
		c.far++
	}
	m.near = false
	c.order = append(c.order, m)
	c.mu.Unlock()
	if c.each != nil {
		c.each(m, b)
		return
	}
	c.received.Done()
}

// forget clears the records of an event.
func (c *crowd) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts, c.order, c.far = c.counts[:0], c.order[:0], 0
}

// wait returns when the worker has run the tasks that were ready before.
func (f *fixture) wait() {
	done := make(chan struct{})
	last := f.workers.NewQueue().NewTask(func(time.Time) { close(done) })
	last.Ready()
	<-done
}
