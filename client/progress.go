package client

import (
	"maps"
	"slices"
)

// progress is how far the receiver of a watch has applied it.
type progress struct {
	applied Position // everything up to it is applied; no revision: not known, or nothing
	err     error    // why the receiver cannot apply what comes next; nil if it can
	// Everything up to attempted is applied or has failed.
	attempted Position
	failed    []string // with an error: the keys that have failed, in order; nil: too many to be named
	changes   int      // of [Failures], which it includes
}

// lower returns the progress that two receivers have made together. If both have an error, that
// of the receiver with the lower position counts, or else that of p.
func (p progress) lower(q progress) progress {
	both := progress{
		applied: lowerPosition(p.applied, q.applied), err: p.err,
		attempted: lowerPosition(p.attempted, q.attempted),
	}
	if q.err != nil && (p.err == nil || p.applied != both.applied && q.applied == both.applied) {
		both.err = q.err
	}
	switch {
	case p.err == nil:
		both.failed = q.failed
	case q.err == nil:
		both.failed = p.failed
	case p.failed != nil && q.failed != nil:
		both.failed = named(slices.Concat(p.failed, q.failed))
	}
	return both
}

// A report names at most so many failed keys, with so many bytes together.
const (
	maxFailedKeys     = 32
	maxFailedKeyBytes = 4096
)

// named returns the keys of failed objects in order, each of them once. If they are too many for a report,
// it returns nil.
func named(keys []string) []string {
	slices.Sort(keys)
	keys = slices.Compact(keys)
	size := 0
	for _, key := range keys {
		size += len(key)
	}
	if len(keys) > maxFailedKeys || size > maxFailedKeyBytes {
		return nil
	}
	return keys
}

// lowerPosition returns the lower one of two positions. It has no revision if their epochs
// differ, because one of the receivers has not reached the new epoch yet.
func lowerPosition(p, q Position) Position {
	switch {
	case p.Epoch != q.Epoch:
		return Position{}
	case q.Revision < p.Revision:
		return q
	}
	return p
}

// failures are the objects whose latest version was not applied, by key.
type failures map[string]failure

type failure struct {
	before   Position // the last position at which the object was applied; no revision if there is none
	revision int64    // of the version that was not applied; 0 for a deletion
	err      error
}

// add notes a failure. If an earlier version of the object was not applied either, the earlier
// position stays. In a new epoch, that is the one before the earlier version.
func (f failures) add(key string, failed failure) {
	switch earlier, ok := f[key]; {
	case !ok:
	case earlier.before.Epoch == failed.before.Epoch:
		failed.before = earlier.before
	default:
		failed.before.Revision = min(failed.before.Revision, max(earlier.revision-1, 0))
	}
	f[key] = failed
}

// progress returns how far everything is applied if everything up to a position is, except the
// failures. The error is that of the oldest failure. Of several, it is that of the first key, so
// that the error stays the same as long as the failures do.
func (f failures) progress(at Position) progress {
	p := progress{applied: at, attempted: at}
	first := ""
	for key, failed := range f {
		before := failed.before
		if before.Epoch != at.Epoch {
			// The failed version is the same in the new epoch, or a deletion.
			before = Position{Epoch: at.Epoch, Revision: max(failed.revision-1, 0)}
		}
		if p.err == nil || before.Revision < p.applied.Revision || before.Revision == p.applied.Revision && key < first {
			p.applied, p.err, first = before, failed.err, key
		}
	}
	if 0 < len(f) && len(f) <= maxFailedKeys {
		p.failed = named(slices.Collect(maps.Keys(f)))
	}
	return p
}
