package store

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"

	"github.com/fanoutd/fanoutd/internal/object"
)

// Operation is something that etcd is asked to do.
type Operation string

// The operations.
const (
	OpRevision Operation = "revision" // say how far it is
	OpList     Operation = "list"     // read objects, a page at a time
	OpCommit   Operation = "commit"   // write
	OpWatch    Operation = "watch"    // open a watch
)

// Operations are all of them.
var Operations = [...]Operation{OpRevision, OpList, OpCommit, OpWatch}

// Calls are how often an operation was asked for, and how often etcd did not do it.
// They never fall.
type Calls struct {
	All    int64
	Failed int64 // etcd did not answer, or not as it should, or a watch broke off; a failed precondition is none, nor is compacted history
}

// calls counts calls by operation.
type calls [len(Operations)]struct{ all, failures atomic.Int64 }

// note counts a call.
func (c *calls) note(op Operation, err error) {
	c[slices.Index(Operations[:], op)].all.Add(1)
	c.failed(op, err)
}

// failed counts a failure, if the error is one.
func (c *calls) failed(op Operation, err error) {
	if isFailure(err) {
		c[slices.Index(Operations[:], op)].failures.Add(1)
	}
}

// isFailure reports whether etcd is to blame for an error. A caller who has no more time
// did not get an answer either; one who has gone did not want it.
func isFailure(err error) bool {
	_, conflict := errors.AsType[*object.ConflictError](err)
	gone := errors.Is(err, context.Canceled) && !errors.Is(err, object.ErrUnavailable)
	return err != nil && !conflict && !gone && !errors.Is(err, object.ErrCompacted)
}

// Calls returns how often etcd was asked to do something.
func (s *Store) Calls(op Operation) Calls {
	c := &s.calls[slices.Index(Operations[:], op)]
	return Calls{All: c.all.Load(), Failed: c.failures.Load()}
}

// Database is the database of an embedded etcd, in bytes.
type Database struct {
	Size  int64 // of the file
	InUse int64 // of what is in it; the rest is reused, and given back by a defragmentation
	Quota int64 // the size at which writes are refused
}

// Database returns what an embedded etcd has stored, or false where etcd is another
// process, which says it itself.
func (s *Store) Database() (Database, bool) {
	if s.database == nil {
		return Database{}, false
	}
	return s.database(), true
}
