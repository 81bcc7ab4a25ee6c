package server

import (
	"container/list"
	"context"
	"errors"
	"sync"
	"time"
)

// queue gives out shares of something that is soon given back, such as the memory
// for responses. Who finds nothing free waits. Clients take turns: one with a thousand
// requests waits for its second share until everybody else has had a first one. And
// a client gets no more than it leaves free, so that what is left is enough for the
// next one, however many shares somebody holds and does not give back.
type queue struct {
	capacity int64 // 0: without limit

	mu      sync.Mutex
	taken   int64             // guarded by mu
	waiting int               // guarded by mu
	claims  map[client]*claim // guarded by mu; of those who hold a share or wait for one
	turns   list.List         // guarded by mu; the claims of those who wait, in turn
}

// claim is what one client holds and waits for. It is guarded by the mutex of the
// queue.
type claim struct {
	client  client
	taken   int64
	waiters list.List     // of *share
	turn    *list.Element // among the turns; nil: nobody waits
}

// share is what was given to somebody, or will be. nil is one of a queue without limit.
type share struct {
	queue   *queue
	claim   *claim
	size    int64         // guarded by queue.mu; 0: given back
	at      *list.Element // among the waiters of the claim, until it is given
	granted chan struct{} // closed when it is given
}

// errNoTurn says that nothing has become free in time.
var errNoTurn = errors.New("nothing has become free in time")

func newQueue(capacity int64) *queue {
	return &queue{capacity: capacity, claims: map[client]*claim{}}
}

// take waits for a share. It returns errNoTurn when the patience is at its end, and
// the error of ctx when that ends first. A share must be given back; doing so again
// does no harm.
func (q *queue) take(ctx context.Context, c client, size int64, patience time.Duration) (*share, error) {
	s := q.ask(c, size)
	if err := s.wait(ctx, patience); err != nil {
		return nil, err
	}
	return s, nil
}

// ask queues for a share, which may be given at once. Who has asked must wait for it or
// give it up.
func (q *queue) ask(c client, size int64) *share {
	if q.capacity == 0 {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	one := q.claims[c]
	if one == nil {
		one = &claim{client: c}
		q.claims[c] = one
	}
	s := &share{queue: q, claim: one, size: min(size, q.capacity), granted: make(chan struct{})}
	s.at = one.waiters.PushBack(s)
	if one.turn == nil {
		one.turn = q.turns.PushBack(one)
	}
	q.waiting++
	q.serve()
	return s
}

// given reports whether the share was given.
func (s *share) given() bool {
	if s == nil {
		return true
	}
	select {
	case <-s.granted:
		return true
	default:
		return false
	}
}

// wait waits for the share as take does.
func (s *share) wait(ctx context.Context, patience time.Duration) error {
	if s.given() {
		return nil
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	var why error
	select {
	case <-s.granted:
		return nil
	case <-timer.C:
		why = errNoTurn
	case <-ctx.Done():
		why = ctx.Err()
	}
	if s.giveUp() {
		return why
	}
	return nil
}

// giveUp leaves the queue, and reports whether it did: the share may have been given in
// this moment.
func (s *share) giveUp() bool {
	q := s.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if s.given() {
		return false
	}
	q.leave(s.claim, s.at)
	q.forget(s.claim)
	return true
}

// serve gives out what is free. It is called with mu held.
func (q *queue) serve() {
	for e := q.turns.Front(); e != nil && q.taken < q.capacity; {
		one := e.Value.(*claim)
		next := one.waiters.Front()
		s := next.Value.(*share)
		if one.taken+s.size > q.capacity-q.taken {
			e = e.Next() // it would have more than it leaves
			continue
		}
		one.taken += s.size
		q.taken += s.size
		close(s.granted)
		q.turns.MoveToBack(e)
		q.leave(one, next)
		e = q.turns.Front()
	}
}

// leave takes somebody out of the queue. It is called with mu held.
func (q *queue) leave(one *claim, at *list.Element) {
	one.waiters.Remove(at)
	q.waiting--
	if one.waiters.Len() == 0 {
		q.turns.Remove(one.turn)
		one.turn = nil
	}
}

// forget drops the claim of a client that has none. It is called with mu held.
func (q *queue) forget(one *claim) {
	if one.taken == 0 && one.turn == nil {
		delete(q.claims, one.client)
	}
}

// shrink gives back what is not needed of a share.
func (s *share) shrink(size int64) {
	if s == nil {
		return
	}
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	if size >= s.size {
		return
	}
	s.claim.taken -= s.size - size
	s.queue.taken -= s.size - size
	s.size = size
	s.queue.serve()
	s.queue.forget(s.claim)
}

// giveBack gives back a share.
func (s *share) giveBack() { s.shrink(0) }

// count returns how much is taken, how many wait, and how many clients there are.
func (q *queue) count() (taken int64, waiting, clients int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.taken, q.waiting, len(q.claims)
}
