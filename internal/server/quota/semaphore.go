package quota

import (
	"container/list"
	"context"
	"errors"
	"sync"
	"time"
)

// FairSemaphore gives out shares of something that is soon given back, such as the memory
// for responses. Who finds nothing free waits. Clients take turns: one with a thousand
// requests waits for its second share until everybody else has had a first one. And
// a client gets no more than it leaves free, so that what is left is enough for the
// next one, however many shares somebody holds and does not give back.
type FairSemaphore struct {
	capacity int64 // 0: without limit

	mu       sync.Mutex
	reserved int64               // guarded by mu
	waiting  int                 // guarded by mu
	accounts map[Client]*account // guarded by mu; of those who hold a share or wait for one
	order    list.List           // guarded by mu; the claims of those who wait, in turn
}

// account is what one client holds and waits for. It is guarded by the mutex of the
// queue.
type account struct {
	client   Client
	reserved int64
	waiters  list.List     // of *share
	inOrder  *list.Element // among the turns; nil: nobody waits
}

// Reservation is what was given to somebody, or will be. nil is one of a queue without limit.
type Reservation struct {
	semaphore *FairSemaphore
	account   *account
	size      int64         // guarded by queue.mu; 0: given back
	element   *list.Element // among the waiters of the claim, until it is given
	granted   chan struct{} // closed when it is given
}

// ErrTimeout says that nothing has become free in time.
var ErrTimeout = errors.New("nothing has become free in time")

func newFairSemaphore(capacity int64) *FairSemaphore {
	return &FairSemaphore{capacity: capacity, accounts: map[Client]*account{}}
}

// Acquire waits for a share. It returns errNoTurn when the patience is at its end, and
// the error of ctx when that ends first. A share must be given back; doing so again
// does no harm.
func (q *FairSemaphore) Acquire(ctx context.Context, c Client, size int64, patience time.Duration) (*Reservation, error) {
	s := q.Reserve(c, size)
	if err := s.Wait(ctx, patience); err != nil {
		return nil, err
	}
	return s, nil
}

// Reserve queues for a share, which may be given at once. Who has asked must wait for it or
// give it up.
func (q *FairSemaphore) Reserve(c Client, size int64) *Reservation {
	if q.capacity == 0 {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	one := q.accounts[c]
	if one == nil {
		one = &account{client: c}
		q.accounts[c] = one
	}
	s := &Reservation{semaphore: q, account: one, size: min(size, q.capacity), granted: make(chan struct{})}
	s.element = one.waiters.PushBack(s)
	if one.inOrder == nil {
		one.inOrder = q.order.PushBack(one)
	}
	q.waiting++
	q.grant()
	return s
}

// Granted reports whether the share was given.
func (s *Reservation) Granted() bool {
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

// Wait waits for the share as take does.
func (s *Reservation) Wait(ctx context.Context, patience time.Duration) error {
	if s.Granted() {
		return nil
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	var why error
	select {
	case <-s.granted:
		return nil
	case <-timer.C:
		why = ErrTimeout
	case <-ctx.Done():
		why = ctx.Err()
	}
	if s.Cancel() {
		return why
	}
	return nil
}

// Cancel leaves the queue, and reports whether it did: the share may have been given in
// this moment.
func (s *Reservation) Cancel() bool {
	q := s.semaphore
	q.mu.Lock()
	defer q.mu.Unlock()
	if s.Granted() {
		return false
	}
	q.dequeue(s.account, s.element)
	q.forget(s.account)
	return true
}

// grant gives out what is free. It is called with mu held.
func (q *FairSemaphore) grant() {
	for e := q.order.Front(); e != nil && q.reserved < q.capacity; {
		one := e.Value.(*account)
		next := one.waiters.Front()
		s := next.Value.(*Reservation)
		if one.reserved+s.size > q.capacity-q.reserved {
			e = e.Next() // it would have more than it leaves
			continue
		}
		one.reserved += s.size
		q.reserved += s.size
		close(s.granted)
		q.order.MoveToBack(e)
		q.dequeue(one, next)
		e = q.order.Front()
	}
}

// dequeue takes somebody out of the queue. It is called with mu held.
func (q *FairSemaphore) dequeue(one *account, at *list.Element) {
	one.waiters.Remove(at)
	q.waiting--
	if one.waiters.Len() == 0 {
		q.order.Remove(one.inOrder)
		one.inOrder = nil
	}
}

// forget drops the claim of a client that has none. It is called with mu held.
func (q *FairSemaphore) forget(one *account) {
	if one.reserved == 0 && one.inOrder == nil {
		delete(q.accounts, one.client)
	}
}

// Shrink gives back what is not needed of a share.
func (s *Reservation) Shrink(size int64) {
	if s == nil {
		return
	}
	s.semaphore.mu.Lock()
	defer s.semaphore.mu.Unlock()
	if size >= s.size {
		return
	}
	s.account.reserved -= s.size - size
	s.semaphore.reserved -= s.size - size
	s.size = size
	s.semaphore.grant()
	s.semaphore.forget(s.account)
}

// Release gives back a share.
func (s *Reservation) Release() { s.Shrink(0) }

// Usage returns how much is taken, how many wait, and how many clients there are.
func (q *FairSemaphore) Usage() (taken int64, waiting, clients int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.reserved, q.waiting, len(q.accounts)
}
