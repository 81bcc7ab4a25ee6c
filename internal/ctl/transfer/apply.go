package transfer

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/fanoutd/fanoutd/client"
)

// Writing is how changes are written: several transactions at a time, each of
// several objects. The order does not matter.
type Writing struct {
	Resource *client.Resource
	// Labels says whether labels are written. Some resources take them from the
	// values.
	Labels bool
	// Done is told of each number of changes that were written, Failed of each
	// change that could not be. They are called by one goroutine at a time.
	Done   func(changes int)
	Failed func(Change, error)
	// Patience is for how long a server that is unavailable is tried again.
	Patience time.Duration

	mu      sync.Mutex // guards what follows, and calls of Done and Failed
	written int
	failed  int
}

// How much is under way at once.
const (
	workers    = 8
	batchOps   = 128       // what a server takes by default
	batchBytes = 512 << 10 // a third of what etcd takes
	settling   = 10 * time.Second
)

// Apply writes the changes and returns how many were written and how many could not
// be. When ctx ends, what is under way is still finished, so that the numbers are
// true; then the cause of ctx is returned. Another error means that the rest would
// fail, too.
func (w *Writing) Apply(ctx context.Context, changes []Change) (written, failed int, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	batches := make(chan []Change)
	var pool sync.WaitGroup
	for range workers {
		pool.Go(func() {
			for batch := range batches {
				if err := w.write(ctx, batch); err != nil {
					cancel(err)
				}
			}
		})
	}
feeding:
	for batch := range slices.Values(cut(changes)) {
		select {
		case <-ctx.Done():
			break feeding
		case batches <- batch:
		}
	}
	close(batches)
	pool.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.written, w.failed, context.Cause(ctx)
}

// cut makes batches of a bounded number and size.
func cut(changes []Change) [][]Change {
	var batches [][]Change
	for len(changes) > 0 {
		n, bytes := 0, 0
		for n < len(changes) && n < batchOps && (n == 0 || bytes+changes[n].size() <= batchBytes) {
			bytes += changes[n].size()
			n++
		}
		batches = append(batches, changes[:n])
		changes = changes[n:]
	}
	return batches
}

// size is roughly what the change adds to a transaction.
func (c *Change) size() int {
	n := len(c.Key) + 64
	if c.New != nil {
		n += len(c.New.Value) + len(c.New.Data)
		if c.New.Text != nil {
			n += len(*c.New.Text)
		}
		for name, value := range c.New.Labels {
			n += len(name) + len(value)
		}
	}
	return n
}

// write writes a batch at once. Where the server refuses it for what is in it, it is
// halved, until what is refused is alone.
func (w *Writing) write(ctx context.Context, batch []Change) error {
	err := w.try(ctx, batch)
	switch {
	case err == nil, len(batch) == 1 && batch[0].gone(err):
		w.mu.Lock()
		defer w.mu.Unlock()
		w.written += len(batch)
		w.Done(len(batch))
		return nil
	case !refused(err):
		return err
	case len(batch) == 1:
		w.mu.Lock()
		defer w.mu.Unlock()
		w.failed++
		w.Failed(batch[0], err)
		return nil
	}
	for half := range slices.Chunk(batch, (len(batch)+1)/2) {
		if err := w.write(ctx, half); err != nil {
			return err
		}
	}
	return nil
}

// refused reports whether an error is about what was to be written.
func refused(err error) bool {
	return errors.Is(err, client.ErrInvalidRequest) || errors.Is(err, client.ErrWriteTooLarge) ||
		errors.Is(err, client.ErrRequestTooLarge) || errors.Is(err, client.ErrPreconditionFailed)
}

// gone reports whether a deletion was refused because there is nothing to delete any
// more: somebody else has done it, or an attempt whose answer was lost.
func (c *Change) gone(err error) bool {
	e, ok := errors.AsType[*client.Error](err)
	return ok && c.Action == Delete && e.Reason == client.ErrPreconditionFailed && e.Metadata["mod_revision"] == "0"
}

// try sends a batch until there is an answer. Sending it twice does no harm: it says
// what shall be, not what shall change.
func (w *Writing) try(ctx context.Context, batch []Change) error {
	ops := make([]client.Op, len(batch))
	for i := range batch {
		ops[i] = w.operation(&batch[i])
	}
	giveUp := time.Now().Add(w.Patience)
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		// An interruption lets it finish, or else nobody would know whether it has.
		finish, cancel := context.WithTimeout(context.WithoutCancel(ctx), settling)
		_, err := w.Resource.Transact(finish, ops...)
		cancel()
		pause := wait/2 + rand.N(wait)
		if e, ok := errors.AsType[*client.Error](err); ok && e.Reason == client.ErrRateLimited {
			// The server is there, and says when it is our turn.
			pause, giveUp = e.RetryAfter+rand.N(wait), time.Now().Add(w.Patience)
		} else if err == nil || !passing(err) || time.Now().After(giveUp) {
			return err
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		case <-timer.C:
		}
	}
}

// passing reports whether the same request may succeed later.
func passing(err error) bool {
	e, ok := errors.AsType[*client.Error](err)
	return ok && (e.Code.String() == "Unavailable" || e.Code.String() == "DeadlineExceeded")
}

func (w *Writing) operation(c *Change) client.Op {
	if c.Action == Delete {
		// Whoever has changed it meanwhile wants it.
		return client.OpDelete(c.Key, client.IfRevision(c.Old.ModRevision))
	}
	labels := c.New.Labels
	if !w.Labels {
		labels = nil
	}
	return client.OpPut(c.Key, Value(c.New.Bytes(), c.New.Type(), c.New.Text != nil).WithLabels(labels))
}

// Value is what is written for a value of a content type.
func Value(data []byte, contentType string, text bool) client.Value {
	v := client.Bytes(data)
	if text {
		v = client.Text(string(data))
	}
	return v.WithContentType(contentType)
}

// Summary says in words what was done.
func Summary(written, failed, unchanged int) string {
	s := fmt.Sprintf("%d written, %d unchanged", written, unchanged)
	if failed > 0 {
		s += fmt.Sprintf(", %d failed", failed)
	}
	return s
}
