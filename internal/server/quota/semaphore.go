package quota

import (
	"container/list"
	"context"
	"errors"
	"sync"
	"time"
)

// FairSemaphore hands out a resource that clients soon release, such as the memory for
// responses. A request for more than is free waits. Clients take turns: a client with a
// thousand requests gets its second reservation after every other client has its first.
// A client never holds more than it leaves free. So there is always something left for the
// next client, even if some clients release nothing.
type FairSemaphore struct {
	capacity int64 // 0: without limit

	mu       sync.Mutex
	reserved int64               // guarded by mu
	waiting  int                 // guarded by mu
	queued   int                 // guarded by mu: reservations of AcquireOrRefuse that wait
	accounts map[Client]*account // guarded by mu; of clients that hold or wait for a reservation
	order    list.List           // guarded by mu; the accounts of clients that wait, in the order of their turns
}

// account is what one client holds and waits for. The mutex of the semaphore guards it.
type account struct {
	client   Client
	reserved int64
	queued   int           // reservations of AcquireOrRefuse that wait
	waiters  list.List     // of *Reservation
	inOrder  *list.Element // its element of order; nil: the client does not wait
}

// Reservation is a part of the capacity that a client holds or waits for. Nil is a granted
// reservation of a semaphore without limit.
type Reservation struct {
	semaphore *FairSemaphore
	account   *account
	size      int64         // guarded by semaphore.mu; 0: released
	element   *list.Element // its element of account.waiters, until it is granted
	granted   chan struct{} // closed when it is granted
	queued    bool          // guarded by semaphore.mu: it counts as queued until it is granted or canceled
}

// errTimeout means that a reservation was not granted in time.
var errTimeout = errors.New("nothing has become free in time")

// errCrowded means that too many reservations wait already.
var errCrowded = errors.New("too many others wait")

func newFairSemaphore(capacity int64) *FairSemaphore {
	return &FairSemaphore{capacity: capacity, accounts: map[Client]*account{}}
}

// Acquire waits for a reservation. It returns [errTimeout] when patience has passed, and
// the error of ctx if that ends first. The caller must release the reservation. Releasing
// it again has no effect.
func (q *FairSemaphore) Acquire(ctx context.Context, c Client, size int64, patience time.Duration) (*Reservation, error) {
	s := q.Reserve(c, size)
	if err := s.Wait(ctx, patience); err != nil {
		return nil, err
	}
	return s, nil
}

// Reserve asks for a reservation, which may be granted at once. The caller must wait for it.
func (q *FairSemaphore) Reserve(c Client, size int64) *Reservation {
	if q.capacity == 0 {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.reserve(c, size)
}

// AcquireOrRefuse does what Acquire does, but returns [errCrowded] at once if the reservation
// would have to wait together with more than most others of this method. A client may have no
// more of these places than it leaves free. If most is zero, any number may wait.
func (q *FairSemaphore) AcquireOrRefuse(ctx context.Context, c Client, size int64, patience time.Duration, most int) (*Reservation, error) {
	if q.capacity == 0 {
		return nil, nil
	}
	s, ok := q.enqueue(c, size, most)
	if !ok {
		return nil, errCrowded
	}
	if err := s.Wait(ctx, patience); err != nil {
		return nil, err
	}
	return s, nil
}

// enqueue asks for a reservation, unless it would be one too many that waits.
func (q *FairSemaphore) enqueue(c Client, size int64, most int) (*Reservation, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.reserve(c, size)
	if s.Granted() {
		return s, true
	}
	if most > 0 && s.account.queued+1 > most-q.queued-1 {
		q.dequeue(s.account, s.element)
		q.forget(s.account)
		return nil, false
	}
	s.queued = true
	s.account.queued++
	q.queued++
	return s, true
}

// reserve is called with mu held.
func (q *FairSemaphore) reserve(c Client, size int64) *Reservation {
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

// Granted reports whether the reservation was granted.
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

// Wait waits for the reservation as Acquire does.
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
		why = errTimeout
	case <-ctx.Done():
		why = ctx.Err()
	}
	q := s.semaphore
	q.mu.Lock()
	defer q.mu.Unlock()
	if s.Granted() { // meanwhile
		return nil
	}
	q.dequeue(s.account, s.element)
	q.forget(s.account)
	return why
}

// grant grants what is free. It is called with mu held.
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

// dequeue removes a waiting reservation. It is called with mu held.
func (q *FairSemaphore) dequeue(one *account, at *list.Element) {
	if s := one.waiters.Remove(at).(*Reservation); s.queued {
		s.queued = false
		one.queued--
		q.queued--
	}
	q.waiting--
	if one.waiters.Len() == 0 {
		q.order.Remove(one.inOrder)
		one.inOrder = nil
	}
}

// forget drops an account that holds nothing and waits for nothing. It is called with mu
// held.
func (q *FairSemaphore) forget(one *account) {
	if one.reserved == 0 && one.inOrder == nil {
		delete(q.accounts, one.client)
	}
}

// Shrink releases all but size of a reservation.
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

// Release releases a reservation.
func (s *Reservation) Release() { s.Shrink(0) }

// Usage returns how much is reserved, how many reservations wait, and how many clients hold
// or wait for one.
func (q *FairSemaphore) Usage() (taken int64, waiting, clients int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.reserved, q.waiting, len(q.accounts)
}
