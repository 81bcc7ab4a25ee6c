package dispatch_test

import (
	"sync"
	"testing"
	"time"

	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/sendqueue"
)

// crowd are followers that all wait to be told what happens, by one worker.
type crowd struct {
	seats []*seat
	told  sync.WaitGroup // who were told since somebody waited for that

	mu     sync.Mutex
	counts []int              // guarded by mu: of those who were told together
	order  []*sendqueue.Queue // guarded by mu: of those who were told
	far    int                // guarded by mu: who were told something before they were looked at

	each func(*seat, *dispatch.Telling) // is called instead of telling those who wait
}

// seat is a follower in a crowd. Its fields belong to the worker.
type seat struct {
	*dispatch.Watcher
	crowd *crowd
	task  sendqueue.Task
	waits chan struct{} // closed when it waits for the first time
	last  *dispatch.Telling
	polls int
	near  bool // it was looked at since it was told something
	full  bool // it has no room for a message
	gone  bool // it is closed
	ended error
}

// gather returns followers, each with one of the options, that have been told where they
// begin and wait. A hundred are of one lane.
func (f *fixture) gather(t testing.TB, count int, i dispatch.Interest, options ...dispatch.Options) *crowd {
	t.Helper()
	c := &crowd{}
	var on *sendqueue.Queue
	for n := range count {
		if n%100 == 0 {
			on = f.workers.NewQueue()
		}
		c.seats = append(c.seats, f.seat(t, c, on, i, options[n%len(options)]))
	}
	return c
}

// seat returns a follower of a lane that has been told where it begins and waits.
func (f *fixture) seat(t testing.TB, c *crowd, on *sendqueue.Queue, i dispatch.Interest, o dispatch.Options) *seat {
	t.Helper()
	s := &seat{crowd: c, waits: make(chan struct{})}
	s.task = on.NewTask(s.run)
	o.Follower = s
	s.Watcher = f.dispatcher.Watch(i, dispatch.FromNow(f.cacher.State().Position()), o)
	t.Cleanup(s.Close)
	if m, ok, err := s.Try(); !ok || err != nil || m.Header.Kind != object.Bookmark {
		t.Fatalf("begins with %+v, %v", m, err)
	}
	if _, ok, err := s.Try(); ok || err != nil {
		t.Fatalf("there is something to say: %v", err)
	}
	s.task.Ready()
	<-s.waits
	return s
}

// after has somebody do something, and returns when everybody was told of it.
func (c *crowd) after(do func()) {
	c.told.Add(len(c.seats))
	do()
	c.told.Wait()
}

// Task implements [dispatch.Follower].
func (s *seat) Task() *sendqueue.Task { return &s.task }

// Tell implements [dispatch.Follower].
func (s *seat) Tell(t *dispatch.Telling, now time.Time) dispatch.Reply {
	if !s.near {
		s.crowd.mu.Lock()
		s.crowd.far++
		s.crowd.mu.Unlock()
	}
	s.near = false
	if s.full || s.gone {
		return dispatch.Leaves
	}
	switch s.Take(t, now) {
	case dispatch.Nothing:
		return dispatch.Stays
	case dispatch.Elsewhere:
		s.task.Ready()
		return dispatch.Leaves
	}
	s.take(t)
	return dispatch.Took
}

// Near implements [dispatch.Follower].
func (s *seat) Near() int {
	s.near = true
	return 1
}

// Told implements [dispatch.Follower].
func (s *seat) Told(_ *dispatch.Telling, n int, _ time.Time) {
	s.crowd.mu.Lock()
	defer s.crowd.mu.Unlock()
	s.crowd.counts = append(s.crowd.counts, n)
}

func (s *seat) run(now time.Time) {
	if s.gone {
		return
	}
	s.polls++
	t, outcome := s.Poll(now)
	switch outcome {
	case dispatch.Nothing:
		if s.polls == 1 {
			close(s.waits)
		}
	case dispatch.Told:
		s.take(t)
		if !s.Settle(now) {
			s.task.Ready()
		}
	case dispatch.Elsewhere:
		for {
			m, ok, err := s.Try()
			if s.ended = err; err != nil {
				return
			}
			if !ok {
				break
			}
			s.take(&dispatch.Telling{Message: m})
		}
		s.task.Ready()
	}
}

func (s *seat) take(t *dispatch.Telling) {
	s.last = t
	s.crowd.mu.Lock()
	s.crowd.order = append(s.crowd.order, s.task.Queue())
	s.crowd.mu.Unlock()
	if s.crowd.each != nil {
		s.crowd.each(s, t)
		return
	}
	s.crowd.told.Done()
}

// forget forgets who was told, between two events.
func (c *crowd) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts, c.order = c.counts[:0], c.order[:0]
}

// wait returns when the worker has done what it was asked for before.
func (f *fixture) wait() {
	done := make(chan struct{})
	last := f.workers.NewQueue().NewTask(func(time.Time) { close(done) })
	last.Ready()
	<-done
}
