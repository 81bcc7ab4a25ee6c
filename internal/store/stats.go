package store

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/fanoutd/fanoutd/internal/object"
)

// operation is a kind of request to etcd.
type operation uint8

const (
	opRevision operation = iota // read the current revision
	opList                      // read a page of objects
	opCommit                    // write
	opWatch                     // open a watch
)

var operationNames = [...]string{opRevision: "revision", opList: "list", opCommit: "commit", opWatch: "watch"}

// calls counts calls by operation.
type calls [len(operationNames)]struct{ all, failures atomic.Int64 }

// count counts a call and its failure.
func (c *calls) count(op operation, err error) {
	c[op].all.Add(1)
	c.countFailure(op, err)
}

// countFailure counts the error if it is a failure of etcd.
func (c *calls) countFailure(op operation, err error) {
	if isFailure(err) {
		c[op].failures.Add(1)
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

// Calls calls f with the counters of each operation. They never decrease. Failed counts requests
// that etcd did not answer or answered with an error, and watches that broke. A failed precondition
// is not a failure, nor is compacted history.
func (s *Store) Calls(f func(operation string, all, failed int64)) {
	for op, name := range operationNames {
		f(name, s.calls[op].all.Load(), s.calls[op].failures.Load())
	}
}
