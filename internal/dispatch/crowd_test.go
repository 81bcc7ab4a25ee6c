package dispatch_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fanoutd/fanoutd/internal/dispatch"
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

	each func(*member, *dispatch.Batch) // called instead of received.Done; nil: none
}

// member is the sink of a watcher in a crowd. Its fields belong to the worker.
type member struct {
	*dispatch.Watcher
	crowd *crowd
	queue *sendqueue.Queue
	waits chan struct{} // closed when the worker has the watcher
	last  *dispatch.Batch
	near  bool // prefetched since the last batch
	full  bool // has no room for a batch

	reserved atomic.Int32 // calls of Reserve

	gone  bool // closed
	ended error
	done  chan struct{} // closed when Serve has returned
}

// gather returns watchers, each with one of the options, that have received their first
// bookmark and wait. A hundred share a queue.
func (f *fixture) gather(t testing.TB, count int, i dispatch.Interest, options ...dispatch.Options) *crowd {
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

// join returns a watcher that has received its first bookmark and waits.
func (f *fixture) join(t testing.TB, c *crowd, q *sendqueue.Queue, i dispatch.Interest, o dispatch.Options) *member {
	t.Helper()
	m := &member{crowd: c, queue: q, waits: make(chan struct{}), done: make(chan struct{})}
	m.Watcher = f.dispatcher.Watch(i, dispatch.FromNow(f.cacher.State().Position()), o, q, m)
	go func() {
		defer close(m.done)
		m.ended = m.Serve()
	}()
	t.Cleanup(m.leave)
	<-m.waits
	for !m.InGroup() {
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
	m.Stop()
	<-m.done
	m.Close()
}

// after calls a function, and returns when every member has received a batch.
func (c *crowd) after(do func()) {
	c.received.Add(len(c.members))
	do()
	c.received.Wait()
}

// Reserve implements [dispatch.Sink].
func (m *member) Reserve() error {
	m.reserved.Add(1)
	return nil
}

// Prefetch implements [dispatch.Sink].
func (m *member) Prefetch() int {
	m.near = true
	return 1
}

// Send implements [dispatch.Sink].
func (m *member) Send(message dispatch.Message) error {
	select {
	case <-m.waits:
		m.receive(&dispatch.Batch{Message: message})
	default:
		if message.Header.Kind != object.Bookmark {
			panic("the first message is no bookmark")
		}
		close(m.waits)
	}
	return nil
}

// TrySend implements [dispatch.Sink].
func (m *member) TrySend(b *dispatch.Batch, _ time.Time) error {
	if m.full {
		return dispatch.ErrFull
	}
	m.receive(b)
	return nil
}

// CountSent implements [dispatch.Sink].
func (m *member) CountSent(_ *dispatch.Batch, n int, _ time.Time) {
	m.crowd.mu.Lock()
	defer m.crowd.mu.Unlock()
	m.crowd.counts = append(m.crowd.counts, n)
}

func (m *member) receive(b *dispatch.Batch) {
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
