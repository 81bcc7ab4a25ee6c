package follow

import (
	"time"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/internal/backoff"
)

// retryQueue has the changes whose commands have failed and will run again: the latest one of each object. The zero
// value is an empty queue.
type retryQueue struct {
	byKey map[string]*retry
	added int // how many objects were added so far
}

// retry is a change of the queue.
type retry struct {
	change client.Event
	delays backoff.Backoff
	due    time.Time
	before client.Position // of the watch, when the object was added
	number int             // in the order in which the objects were added
}

// compared returns a change of an object as its difference from what the last successful command got. That is another
// one than the object before the change if the change replaces a retry.
func (q *retryQueue) compared(change client.Event) client.Event {
	waiting, ok := q.byKey[change.Object.Key]
	switch {
	case !ok:
	case waiting.change.Type == client.Added && change.Type == client.Modified:
		change.Type = client.Added
	case waiting.change.Type == client.Deleted && change.Type == client.Added:
		change.Type = client.Modified
	}
	return change
}

// add notes that the command for a change has failed. It replaces an earlier change of the object. At is the position
// that the watch had reached before the change.
func (q *retryQueue) add(change client.Event, at client.Position) {
	if q.byKey == nil {
		q.byKey = map[string]*retry{}
	}
	q.added++
	r := &retry{change: change, delays: retries, before: at, number: q.added}
	if earlier, ok := q.byKey[change.Object.Key]; ok {
		r.before, r.number = earlier.before, earlier.number // no command has succeeded since
	}
	r.later()
	q.byKey[change.Object.Key] = r
}

// later sets when the command runs again.
func (r *retry) later() { r.due = time.Now().Add(r.delays.Next()) }

// first returns the retry that is due first, or nil.
func (q *retryQueue) first() *retry {
	return q.least(func(r, than *retry) bool { return r.due.Before(than.due) })
}

// oldest returns the retry whose object was added first, or nil.
func (q *retryQueue) oldest() *retry {
	return q.least(func(r, than *retry) bool { return r.number < than.number })
}

func (q *retryQueue) least(less func(r, than *retry) bool) (least *retry) {
	for _, r := range q.byKey {
		if least == nil || less(r, least) {
			least = r
		}
	}
	return least
}

// timer returns a channel that receives when the first retry is due, and a function that stops it.
func (q *retryQueue) timer() (due <-chan time.Time, stop func()) {
	r := q.first()
	if r == nil {
		return nil, func() {}
	}
	timer := time.NewTimer(time.Until(r.due))
	return timer.C, func() { timer.Stop() }
}
