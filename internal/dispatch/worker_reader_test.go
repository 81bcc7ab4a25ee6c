package dispatch_test

import (
	"context"
	"sync"
	"time"

	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/sendqueue"
)

// reader is what a subscriber needs of a watcher.
type reader interface {
	Next(ctx context.Context) (dispatch.Message, error)
	Position() object.Position
	Close()
}

// workerReader reads a watcher that its worker serves, as the server does: the worker sends
// batches until the handler is needed. The sink has room for one message each time Next is
// called, so nothing is sent before the test asks for it.
type workerReader struct {
	watcher *dispatch.Watcher
	out     chan *dispatch.Batch // capacity 1
	worker  bool                 // the worker has the watcher

	mu     sync.Mutex
	asked  bool   // guarded by mu: the sink has room
	counts counts // guarded by mu
}

// counts has the number of times that each thing happened.
type counts map[string]int

// What can happen to a reader.
const (
	sent        = "sent by the worker"
	counted     = "counted by the worker"
	full        = "no room"
	handedBack  = "handed back to the handler"
	byHandler   = "sent by the handler"
	interrupted = "sent while the reader gave up"
)

func readByWorker(d *dispatch.Dispatcher, q *sendqueue.Queue, i dispatch.Interest, b dispatch.Begin, o dispatch.Options, c counts) *workerReader {
	r := &workerReader{out: make(chan *dispatch.Batch, 1), counts: c}
	r.watcher = d.Watch(i, b, o, q, r)
	return r
}

// Reserve implements [dispatch.Sink].
func (*workerReader) Reserve() error { return nil }

// Send implements [dispatch.Sink].
func (*workerReader) Send(dispatch.Message) error {
	panic("the test takes the messages of the handler")
}

// Prefetch implements [dispatch.Sink].
func (*workerReader) Prefetch() int { return 0 }

// TrySend implements [dispatch.Sink].
func (r *workerReader) TrySend(b *dispatch.Batch, _ time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.asked {
		r.counts[full]++
		return dispatch.ErrFull
	}
	r.counts[sent]++
	r.asked = false
	r.out <- b
	return nil
}

// CountSent implements [dispatch.Sink].
func (r *workerReader) CountSent(*dispatch.Batch, int, time.Time) { r.count(counted) }

func (r *workerReader) count(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts[what]++
}

// Next waits for the next message.
func (r *workerReader) Next(ctx context.Context) (dispatch.Message, error) {
	for {
		if !r.worker {
			if m, ok, err := r.watcher.Try(); ok || err != nil {
				r.count(byHandler)
				return m, err
			}
		}
		r.mu.Lock()
		r.asked = true
		r.mu.Unlock()
		if r.worker {
			r.watcher.Ready()
		} else {
			r.worker = true
			r.watcher.HandOver()
		}
		select {
		case b := <-r.out:
			return b.Message, nil
		case <-r.watcher.HandedBack():
			r.worker = false
			r.count(handedBack)
			select {
			case b := <-r.out: // sent before the watcher was handed back
				return b.Message, nil
			default:
			}
			if r.watcher.IsStopped() {
				return dispatch.Message{}, dispatch.ErrStopped
			}
		case <-ctx.Done():
			return r.giveUp(ctx.Err())
		}
	}
}

// giveUp takes the watcher back from the worker. A message that the worker sends meanwhile
// counts.
func (r *workerReader) giveUp(err error) (dispatch.Message, error) {
	r.takeBack()
	select {
	case b := <-r.out:
		r.count(interrupted)
		return b.Message, nil
	default:
		return dispatch.Message{}, err
	}
}

func (r *workerReader) takeBack() {
	if r.worker {
		r.watcher.TakeBack()
		r.worker = false
	}
}

func (r *workerReader) Position() object.Position {
	r.takeBack()
	return r.watcher.Position()
}

func (r *workerReader) Close() {
	r.takeBack()
	r.watcher.Close()
}
