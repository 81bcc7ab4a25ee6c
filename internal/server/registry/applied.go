package registry

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/request"
)

// Applied counts the watches that have applied a revision.
type Applied struct {
	Watches int64 // selected watches that report; all selected ones if the request requires all
	Applied int64 // watches that have applied the revision
	Failed  int64 // watches that have attempted the revision, have not applied it, and have reported an error

	// Pending are the first watches that have not applied the revision: those that have failed
	// first, then others with an error, then the oldest.
	Pending []Pending

	NotReporting int64     // selected watches that do not report, and so do not count
	Oldest       []Pending // the oldest of them

	// Position is the one up to which the server has all changes. Zero: unknown.
	Position object.Position
	Reached  bool // the position is at or after the revision
}

// Pending is a watch that has not applied a revision, with its latest report.
type Pending struct {
	Watch    Watch
	reports  bool
	reported Reported
	failed   bool // the error of the report counts for the revision

	// What the digest knows of the watch. A later message shows the same: the watch may be in another
	// state meanwhile, and in this one again when the next digest is made.
	notable *fanoutv1.WatcherStatus
}

// observe keeps the status of the watch.
func (p *Pending) observe() {
	progress := p.Watch.Progress()
	p.notable = notableStatus(p.Watch, &progress, p.reports, p.reported)
}

// The most watches in the lists of Applied.
const (
	maxPending      = 100
	maxNotReporting = 20
)

// Digest identifies what an operator sees of an [Applied]: the counts, the watches with what
// [notableStatus] has of them, and that the server has reached the revision. Unlike an Applied, it
// keeps no watch in memory.
type Digest [sha256.Size]byte

// Digest returns the digest.
func (a *Applied) Digest() (d Digest) {
	h := sha256.New()
	fmt.Fprintln(h, a.Watches, a.Applied, a.Failed, a.NotReporting, a.Reached)
	for _, list := range [][]Pending{a.Pending, a.Oldest} {
		for _, p := range list {
			status, _ := proto.MarshalOptions{Deterministic: true}.Marshal(p.notable) // cannot fail: its strings come from messages
			fmt.Fprintf(h, "%v %t %q\n", p.Watch.Number(), p.failed, status)
		}
	}
	h.Sum(d[:0])
	return d
}

// Status returns the status of the watch, with the report that was counted. The client may have
// reported something else meanwhile.
func (p *Pending) Status() *fanoutv1.WatcherStatus {
	s := proto.CloneOf(p.notable)
	complete(s, p.Watch, sampleOf(p.Watch, nil, p.reported))
	return s
}

// CountApplied counts the watches that have applied a revision. It takes a fraction of a
// microsecond for each watch of the server, or a microsecond if it has to look at the names of the
// subscribers, and one processor at most for all its callers.
func (r *Registry) CountApplied(q request.Applied) *Applied {
	r.counting.Lock()
	defer r.counting.Unlock()
	r.appliedCounts.Add(1)
	a := &Applied{Position: r.resources[q.Resource].Position()}
	a.Reached = a.Position.Revision >= q.Revision
	selects := subscriberFilter(q)
	r.eachWatch(func(w Watch) {
		if w.Resource() != q.Resource || !w.Scope().Overlaps(q.Scope) || !selects(w) {
			return
		}
		p := Pending{Watch: w}
		p.reports, p.reported = reportOf(w)
		if !p.reports && !q.RequireAll {
			if a.NotReporting++; a.NotReporting <= maxNotReporting {
				a.Oldest = append(a.Oldest, p)
			}
			return
		}
		a.Watches++
		var applied bool
		if applied, p.failed = outcome(w, p.reported, a.Position.Epoch, q); applied {
			a.Applied++
			return
		}
		if p.failed {
			a.Failed++
		}
		if a.Pending = append(a.Pending, p); len(a.Pending) == 2*maxPending {
			a.trimPending()
		}
	})
	a.trimPending()
	for _, list := range [][]Pending{a.Pending, a.Oldest} {
		for i := range list {
			list[i].observe()
		}
	}
	return a
}

// subscriberFilter returns a function that reports whether a request selects a watch by its
// subscriber. The watches of a stream follow each other and share their subscriber, so the
// function looks at it once.
func subscriberFilter(q request.Applied) func(Watch) bool {
	if q.Instance == "" && q.Subscribers.String() == "" {
		return func(Watch) bool { return true }
	}
	var last SubscriberName
	matches := func() bool {
		s := last.Subscriber()
		return (q.Instance == "" || s.GetInstance() == q.Instance) && q.Subscribers.Matches(object.New(object.Decoded{Labels: s.GetLabels()}, nil, 0))
	}
	lastMatches := matches()
	return func(w Watch) bool {
		if name := w.Caller().Name(); name != last {
			last = name
			lastMatches = matches()
		}
		return lastMatches
	}
}

// outcome reports whether a watch has applied the revision of a request, or has failed to.
func outcome(w Watch, r Reported, epoch object.Epoch, q request.Applied) (applied, failed bool) {
	if hasReached(w, r.Applied, epoch, q.Revision) {
		return true, false
	}
	f := r.failure
	// An earlier error may be what the revision corrects.
	if f == nil || !hasReached(w, f.attempted, epoch, q.Revision) {
		return false, false
	}
	failed = f.concerns(q.Scope)
	return !failed, failed
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
func (r *Registry) AppliedCounts() int64 { return r.appliedCounts.Load() }
