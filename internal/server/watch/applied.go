package watch

import (
	"cmp"
	"slices"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/request"
)

// Applied counts the watches that have applied a revision.
type Applied struct {
	Watches int64 // watches whose scopes overlap that of the request
	Applied int64 // watches that have applied the revision
	Failed  int64 // watches that have attempted the revision, have not applied it, and have reported an error

	// Pending are the first watches that have not applied the revision: those that have failed
	// first, then others with an error, then the oldest.
	Pending []Pending
}

// Pending is a watch that has not applied a revision, with its latest report.
type Pending struct {
	Watch    Watch
	reported Reported
	failed   bool // the error of the report counts for the revision
}

// maxPending limits Applied.Pending.
const maxPending = 100

// Equal reports whether an operator would see the same counts, watches and reports.
func (a *Applied) Equal(b *Applied) bool {
	return a.Watches == b.Watches && a.Applied == b.Applied && a.Failed == b.Failed &&
		slices.EqualFunc(a.Pending, b.Pending, func(p, q Pending) bool { return p.equal(&q) })
}

// equal reports whether an operator would see the same watch and report.
func (p *Pending) equal(q *Pending) bool {
	return p.Watch == q.Watch && p.failed == q.failed && p.reported.Applied == q.reported.Applied && p.reported.failure.isSame(q.reported.failure)
}

// CountApplied counts the watches that have applied a revision. It takes a fraction of a
// microsecond for each watch of the server, and one processor at most for all its callers.
func (s *Service) CountApplied(q request.Applied) *Applied {
	s.counting.Lock()
	defer s.counting.Unlock()
	s.appliedCounts.Add(1)
	resource := s.cfg.Resources[q.Resource]
	epoch := resource.Epoch()
	a := &Applied{}
	s.Registry.eachWatch(func(w Watch) {
		if w.Resource() != q.Resource || !w.Scope().Overlaps(q.Scope) {
			return
		}
		a.Watches++
		p := Pending{Watch: w, reported: w.Reported()}
		if hasReached(w, p.reported.Applied, epoch, q.Revision) {
			a.Applied++
			return
		}
		// An earlier error may be what the revision corrects.
		f := p.reported.failure
		if p.failed = f != nil && hasReached(w, f.attempted, epoch, q.Revision); p.failed {
			a.Failed++
		}
		if a.Pending = append(a.Pending, p); len(a.Pending) == 2*maxPending {
			a.trimPending()
		}
	})
	a.trimPending()
	return a
}

// trimPending sorts the pending watches, and keeps only as many as an answer has.
func (a *Applied) trimPending() {
	slices.SortFunc(a.Pending, func(x, y Pending) int {
		return cmp.Or(cmp.Compare(x.rank(), y.rank()), x.Watch.Number().Compare(y.Watch.Number()))
	})
	if len(a.Pending) > maxPending {
		clear(a.Pending[maxPending:])
		a.Pending = a.Pending[:maxPending]
	}
}

// rank orders watches: those that have failed first, then others with an error.
func (p *Pending) rank() int {
	switch {
	case p.failed:
		return 0
	case p.reported.Failed():
		return 1
	}
	return 2
}

// hasReached reports whether the client of a watch has reached a revision of an epoch, if it has
// reached a position. It has then also reached everything after the position that does not
// concern the watch.
func hasReached(w Watch, at object.Position, epoch object.Epoch, revision object.Revision) bool {
	switch {
	case at.Revision == 0, epoch != "" && at.Epoch != epoch:
		return false
	case at.Revision >= revision:
		return true
	}
	return w.Quiet(at, revision)
}

// AppliedCounts returns how often CountApplied has counted. It is for tests.
func (s *Service) AppliedCounts() int64 { return s.appliedCounts.Load() }
