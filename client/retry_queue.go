package client

import (
	"cmp"
	"time"

	"github.com/tidwall/btree"
)

// The delays before an object is offered again to a handler that has failed.
const (
	firstRetry = time.Second
	mostRetry  = time.Minute
)

// retry is a change that a handler has not accepted.
type retry[T any] struct {
	change   change[*entry[T]] // from what the handler has to the latest version
	resync   bool              // nothing has changed; a resync has offered the object
	attempts int
	due      time.Time
}

// retryQueue has the changes that a handler has not accepted, by key and by the times at which
// they are due. It belongs to the goroutine of the handler.
type retryQueue[T any] struct {
	byKey map[string]*retry[T]
	byDue *btree.BTreeG[*retry[T]]
}

func newRetryQueue[T any]() *retryQueue[T] {
	return &retryQueue[T]{byKey: map[string]*retry[T]{}, byDue: btree.NewBTreeGOptions(func(a, b *retry[T]) bool {
		return cmp.Or(a.due.Compare(b.due), cmp.Compare(a.change.key(), b.change.key())) < 0
	}, btree.Options{NoLocks: true})}
}

// add adds a change after another failed attempt. The queue must not have one of its key.
func (q *retryQueue[T]) add(r *retry[T]) {
	delay := mostRetry
	if r.attempts < 6 {
		delay = min(firstRetry<<r.attempts, mostRetry)
	}
	r.attempts++
	// Objects that failed together do not come back together.
	r.due = time.Now().Add(delay - jitter(delay/5))
	q.byKey[r.change.key()] = r
	q.byDue.Set(r)
}

// remove removes the change of a key. It returns nil if there is none.
func (q *retryQueue[T]) remove(key string) *retry[T] {
	r := q.byKey[key]
	if r != nil {
		delete(q.byKey, key)
		q.byDue.Delete(r)
	}
	return r
}

func (q *retryQueue[T]) has(key string) bool { return q.byKey[key] != nil }

// first returns the change that is due first.
func (q *retryQueue[T]) first() *retry[T] {
	r, _ := q.byDue.Min()
	return r
}

// timer returns a channel that delivers when a change is due, or never if there is none.
func (q *retryQueue[T]) timer() (due <-chan time.Time, stop func() bool) {
	r := q.first()
	if r == nil {
		return nil, func() bool { return false }
	}
	timer := time.NewTimer(time.Until(r.due))
	return timer.C, timer.Stop
}
