package transfer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/internal/backoff"
	"github.com/fanoutd/fanoutd/internal/ctl/document"
)

// Writer writes changes with concurrent transactions of several objects each, in no
// particular order.
type Writer struct {
	Resource *client.Resource
	// DerivedLabels reports whether the resource derives labels from the values. Labels are then not
	// written. It is called only if the server refuses labels. Nil: labels are stored.
	DerivedLabels func() bool
	// OverwriteOpaque replaces objects whose values the server cannot decode.
	OverwriteOpaque bool
	// SkipValidation writes although the validation rules refuse it.
	SkipValidation bool
	// Done is called with the number of written changes, and Failed for each change that
	// the server refused. They are never called concurrently.
	Done   func(changes int)
	Failed func(Change, error)
	// Retry is how long to retry while the server is unavailable.
	Retry time.Duration
	// Undo notes what is written. Each write then requires that the object is still the old one of its change, and
	// is refused otherwise. Nil: documents replace whatever there is.
	Undo *Undo

	omitLabels atomic.Bool // the resource derives labels

	mu      sync.Mutex // guards the fields below, and calls of Done and Failed
	written int
	failed  int
	newest  int64 // revision of a transaction
}

const (
	workers    = 8
	batchOps   = 128              // a server's default limit
	batchBytes = 512 << 10        // a third of etcd's limit
	txnTimeout = 10 * time.Second // for one transaction
)

// Apply writes the changes and returns how many were written and how many were refused. If
// ctx ends, it finishes the transactions in progress, so that the numbers are exact, and
// returns the cause of ctx. It stops at any error that would also fail the remaining
// changes.
func (w *Writer) Apply(ctx context.Context, changes []Change) (written, failed int, err error) {
	pool, poolCtx := errgroup.WithContext(ctx)
	pool.SetLimit(workers)
	for _, batch := range splitBatches(changes) {
		pool.Go(func() error { return w.write(poolCtx, batch) })
	}
	if err = pool.Wait(); err == nil {
		err = context.Cause(ctx) // it ended during the last transactions
	}
	return w.written, w.failed, err
}

// Newest returns the newest revision of the writes; 0 if nothing was written.
func (w *Writer) Newest() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.newest
}

// splitBatches splits changes into batches of bounded number and size.
func splitBatches(changes []Change) [][]Change {
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

// size returns the approximate size of the change in a transaction.
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

// write writes a batch in one transaction. If the server refuses the content, write splits
// the batch in halves, down to the refused change.
func (w *Writer) write(ctx context.Context, batch []Change) error {
	err := w.transact(ctx, batch)
	switch {
	case err == nil, len(batch) == 1 && w.Undo == nil && batch[0].alreadyDeleted(err):
		w.mu.Lock()
		defer w.mu.Unlock()
		w.written += len(batch)
		w.Done(len(batch))
		return nil
	case !refused(err):
		return err
	case len(batch) == 1 || errors.Is(err, errUnknownOutcome):
		if errors.Is(err, errUnknownOutcome) {
			err = errUnknownOutcome // what the server refused may be one of many
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.failed += len(batch)
		for _, c := range batch {
			w.Failed(c, err)
		}
		return nil
	}
	for half := range slices.Chunk(batch, (len(batch)+1)/2) {
		if err := w.write(ctx, half); err != nil {
			return err
		}
	}
	return nil
}

// refused reports whether an error concerns the content of the transaction.
func refused(err error) bool {
	return errors.Is(err, client.ErrInvalidRequest) || errors.Is(err, client.ErrValueRefused) || errors.Is(err, client.ErrWriteTooLarge) ||
		errors.Is(err, client.ErrRequestTooLarge) || errors.Is(err, client.ErrPreconditionFailed) || errors.Is(err, client.ErrOpaqueValue)
}

// alreadyDeleted reports whether a deletion was refused because the object does not exist:
// another client has deleted it, or an earlier attempt whose answer was lost.
func (c *Change) alreadyDeleted(err error) bool {
	e, ok := errors.AsType[*client.Error](err)
	return ok && c.Action == Delete && e.Reason == client.ErrPreconditionFailed && e.Metadata["mod_revision"] == "0"
}

// errUnknownOutcome is part of the error for a batch that is refused after an attempt that may have been applied, and
// that is to be undone. The refusal may be the effect of that attempt.
var errUnknownOutcome = errors.New("it may have been written by an attempt whose answer was lost")

// transact sends a batch, and retries while the server is unavailable. Repeating a batch is
// safe, because it sets the wanted state.
func (w *Writer) transact(ctx context.Context, batch []Change) error {
	labels := !w.omitLabels.Load()
	ops := w.operations(batch, labels)
	giveUp := time.Now().Add(w.Retry)
	delays := backoff.Backoff{First: 100 * time.Millisecond, Most: 5 * time.Second}
	uncertain := false // an attempt may have been applied
	for ctx.Err() == nil {
		// Do not interrupt a transaction: its outcome would be unknown.
		txnCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), txnTimeout)
		done, err := w.Resource.Transact(txnCtx, ops...)
		cancel()
		if err == nil {
			w.note(done.Revision, batch)
		}
		uncertain = uncertain || Uncertain(err)
		if labels && w.DerivedLabels != nil && RefusesField(err, "labels") && w.DerivedLabels() {
			w.omitLabels.Store(true)
			labels, ops = false, w.operations(batch, false)
			continue
		}
		pause := delays.Next()
		if e, ok := errors.AsType[*client.Error](err); ok && e.Reason == client.ErrRateLimited {
			// The server is available. Its error contains when to retry.
			pause, giveUp = pause+e.RetryAfter, time.Now().Add(w.Retry)
		} else if err == nil || !isTransient(err) || time.Now().After(giveUp) {
			return w.unknown(err, uncertain, batch)
		}
		backoff.Sleep(ctx, pause)
	}
	return w.unknown(context.Cause(ctx), uncertain, batch)
}

// note notes that a batch was written at a revision.
func (w *Writer) note(revision int64, batch []Change) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.newest = max(w.newest, revision)
	if w.Undo != nil {
		w.Undo.Note(revision, batch...)
	}
}

// unknown notes a batch whose outcome is unknown, so that it cannot be undone. It returns its error.
func (w *Writer) unknown(err error, uncertain bool, batch []Change) error {
	if err == nil || !uncertain || w.Undo == nil {
		return err
	}
	w.Undo.NoteUnknown(batch...)
	return fmt.Errorf("%w: %w", errUnknownOutcome, err)
}

// isTransient reports whether the same request may succeed later.
func isTransient(err error) bool {
	e, ok := errors.AsType[*client.Error](err)
	return ok && (e.Code.String() == "Unavailable" || e.Code.String() == "DeadlineExceeded" || e.Reason == client.ErrWriteContended)
}

// RefusesField reports whether the server refuses a field of a request. Codecs that derive content
// types and labels from the values refuse the fields "content_type" and "labels".
func RefusesField(err error, field string) bool {
	e, ok := errors.AsType[*client.Error](err)
	return ok && e.Reason == client.ErrInvalidRequest && slices.ContainsFunc(e.Violations, func(v client.Violation) bool {
		return v.Field[strings.LastIndex(v.Field, ".")+1:] == field
	})
}

// operations returns the operations of a batch, with or without the labels of documents.
func (w *Writer) operations(batch []Change, labels bool) []client.Op {
	var opts []client.WriteOption
	var deletes []client.DeleteOption
	if w.OverwriteOpaque {
		opts = append(opts, client.OverwriteOpaque())
	}
	if w.SkipValidation {
		opts, deletes = append(opts, client.SkipValidation()), append(deletes, client.SkipValidation())
	}
	ops := make([]client.Op, len(batch))
	for i, c := range batch {
		if c.Action == Delete {
			// Keep an object that another client has changed meanwhile.
			ops[i] = client.OpDelete(c.Key, append(slices.Clip(deletes), client.IfRevision(c.revision()))...)
			continue
		}
		put := opts
		if w.Undo != nil {
			put = append(slices.Clip(opts), client.IfRevision(c.revision()))
		}
		ops[i] = client.OpPut(c.Key, valueOf(c.New, labels), put...)
	}
	return ops
}

// revision returns the revision of the old object; 0 if there is none.
func (c *Change) revision() int64 {
	if c.Old == nil {
		return 0
	}
	return c.Old.ModRevision
}

// valueOf returns the value of a document, with or without its labels.
func valueOf(d *document.Document, labels bool) client.Value {
	v := client.Bytes(d.Bytes())
	if d.Text != nil {
		v = client.Text(*d.Text)
	}
	if v = v.WithContentType(d.Type()); labels {
		v = v.WithLabels(d.Labels)
	}
	return v
}
