package store

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"

	"github.com/fanoutd/fanoutd/internal/object"
)

// Operation is a kind of request to etcd.
type Operation string

// The operations.
const (
	OpRevision Operation = "revision" // read the current revision
	OpList     Operation = "list"     // read a page of objects
	OpCommit   Operation = "commit"   // write
	OpWatch    Operation = "watch"    // open a watch
)

// Operations contains all operations.
var Operations = [...]Operation{OpRevision, OpList, OpCommit, OpWatch}

// Calls counts the requests of one operation. The counters never decrease.
type Calls struct {
	All int64

	// Failed counts requests that etcd did not answer or answered with an error, and
	// watches that broke. A failed precondition is not a failure, nor is compacted
	// history.
	Failed int64
}

// calls counts calls by operation.
type calls [len(Operations)]struct{ all, failures atomic.Int64 }

// count counts a call and its failure.
func (c *calls) count(op Operation, err error) {
	c[slices.Index(Operations[:], op)].all.Add(1)
	c.countFailure(op, err)
}

// countFailure counts the error if it is a failure of etcd.
func (c *calls) countFailure(op Operation, err error) {
	if isFailure(err) {
		c[slices.Index(Operations[:], op)].failures.Add(1)
	}
}

// isFailure reports whether an error is a failure of etcd. A caller's expired deadline
// is a failure because etcd did not answer in time. A cancelled call is not.
func isFailure(err error) bool {
	_, conflict := errors.AsType[*object.ConflictError](err)
	_, stale := errors.AsType[*object.StaleError](err)
	cancelled := errors.Is(err, context.Canceled) && !errors.Is(err, object.ErrUnavailable)
	return err != nil && !conflict && !stale && !cancelled && !errors.Is(err, object.ErrCompacted)
}

// Calls returns the counters of an operation.
func (s *Store) Calls(op Operation) Calls {
	c := &s.calls[slices.Index(Operations[:], op)]
	return Calls{All: c.all.Load(), Failed: c.failures.Load()}
}
