package client

// progress is how far the receiver of a watch has applied it.
type progress struct {
	applied Position // everything up to it is applied; no revision: not known, or nothing
	err     error    // why the receiver cannot apply what comes next; nil if it can
}

// lower returns the progress that two receivers have made together.
func (p progress) lower(q progress) progress {
	switch {
	case p.applied.Epoch != q.applied.Epoch:
		// One of them has not reached the new epoch yet.
		p.applied = Position{}
		if p.err == nil {
			p.err = q.err
		}
	case q.applied.Revision < p.applied.Revision:
		if q.err == nil {
			q.err = p.err
		}
		return q
	case p.err == nil:
		p.err = q.err
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

// fail notes that a change of a step was not applied. If an earlier version of the object was
// not applied either, the earlier position stays.
func fail[E keyed](f failures, s *step[E], c change[E], err error) {
	var none E
	failed := failure{before: s.before(c), err: err}
	if c.new != none {
		failed.revision = c.new.revision()
	}
	if earlier, ok := f[c.key()]; ok && earlier.before.Epoch == failed.before.Epoch {
		failed.before = earlier.before
	}
	f[c.key()] = failed
}

// progress returns how far everything is applied if everything up to a position is, except the
// failures.
func (f failures) progress(at Position) progress {
	p := progress{applied: at}
	for _, failed := range f {
		before := failed.before
		if before.Epoch != at.Epoch {
			// The failed version is the same in the new epoch, or a deletion.
			before = Position{Epoch: at.Epoch, Revision: max(failed.revision-1, 0)}
		}
		if p.err == nil || before.Revision < p.applied.Revision {
			p = progress{before, failed.err}
		}
	}
	return p
}
