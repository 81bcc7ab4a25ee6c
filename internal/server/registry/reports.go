package registry

import (
	"slices"
	"time"
	"unique"

	"google.golang.org/genproto/googleapis/rpc/code"

	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/apierr"
	"github.com/fanoutd/fanoutd/internal/server/backend"
	"github.com/fanoutd/fanoutd/internal/server/request"
)

// observed is what few watches need: what their clients have reported, and the events that were seen
// waiting. [Watch.Mutex] guards it.
type observed struct {
	Reported
	unapplied *waiting // the oldest event after Applied; nil: none waits, or none was seen
	unsent    *waiting // the oldest event after the latest message; nil: none waits, or none was seen
}

// Reported is the latest report of a client.
type Reported struct {
	Applied object.Position // the latest position that was reported; zero: none, or a RESET has begun since
	failure *failure        // the error of the latest report; nil: none
}

// failure is an error that a client has reported. It never changes.
type failure struct {
	code      code.Code
	message   unique.Handle[string] // watches with the same error share one copy
	since     time.Time
	attempted object.Position // everything up to it is applied or has failed; zero: unknown

	// keys are those of the objects that have failed. Empty: unknown. Watches that fail for the same
	// objects share their keys.
	keys []unique.Handle[object.Key]
}

// concerns reports whether an object in the scope has failed, or may have.
func (f *failure) concerns(s object.Scope) bool {
	return len(f.keys) == 0 || slices.ContainsFunc(f.keys, func(k unique.Handle[object.Key]) bool { return s.Contains(k.Value()) })
}

// isSame reports whether two failures are the same error. Nil is no failure.
func (f *failure) isSame(g *failure) bool {
	if f == nil || g == nil {
		return f == g
	}
	return f.code == g.code && f.message == g.message
}

// Failed reports whether the latest report has an error.
func (r Reported) Failed() bool { return r.failure != nil }

// record records a report about a watch of a scope. The argument sent is the position of the latest
// message that the client may have received. It returns whether the report has an error that the report before
// did not have. The returned error explains what is wrong with the report; then nothing is recorded.
func (r *observed) record(report request.Report, scope object.Scope, sent object.Position) (newFailure bool, err error) {
	if err := report.CheckFailedKeys(scope); err != nil {
		return false, err
	}
	applied, err := report.AppliedUpTo(sent)
	if err != nil {
		return false, err
	}
	attempted, err := report.AttemptedUpTo(sent)
	if err != nil {
		return false, err
	}
	if applied != (object.Position{}) {
		r.Applied = applied
	}
	if report.Failure == (request.Failure{}) {
		r.failure = nil
		return false, nil
	}
	next := &failure{code: report.Failure.Code, message: unique.Make(report.Failure.Message), since: time.Now(), attempted: attempted}
	for _, key := range report.FailedKeys {
		next.keys = append(next.keys, unique.Make(key))
	}
	if newFailure = !next.isSame(r.failure); !newFailure {
		next.since = r.failure.since
	}
	r.failure = next
	return newFailure, nil
}

// BeginReset records that a RESET begins: the client no longer has what it had applied, and what
// it has attempted may be of another epoch. Its error stays. The caller holds [Watch.Mutex].
func (r *Registration) BeginReset() {
	o := r.observed
	if o == nil {
		return
	}
	o.Applied, o.unapplied = object.Position{}, nil
	if o.failure != nil {
		f := *o.failure
		f.attempted = object.Position{}
		o.failure = &f
	}
}

// waiting describes the oldest event that waits for a watch.
type waiting struct {
	after   object.Position // position of the watch
	arrived time.Time       // when the event arrived, or a later time if that is unknown
}

// observe returns what is known about the oldest event that waits after a position, and
// completes the lag of the watch. It returns nil if no event waits. Nil means that nothing was
// known before.
//
// When the oldest waiting event has left the window, the window no longer has the time of its
// arrival. So the earliest time that was seen there is kept. The lag therefore grows until the
// position changes, although the window moves on.
func (w *waiting) observe(after object.Position, backlog feed.Backlog, lag *backend.Lag) *waiting {
	arrived := time.Now().Add(-lag.Waited)
	switch {
	case backlog.Events == 0:
		return nil
	case w != nil && w.after == after && lag.IsMinimum && w.arrived.Before(arrived):
		lag.Waited = time.Since(w.arrived)
		return w
	case w == nil:
		w = new(waiting)
	}
	*w = waiting{after: after, arrived: arrived}
	return w
}

// Report records how far the client has applied a watch. It wakes nothing. The error says what is wrong
// with the report, or that the watch has not begun or has ended; then nothing is recorded.
func (r *Registry) Report(w Watch, report request.Report) error {
	reg, mu := w.registration(), w.Mutex()
	mu.Lock()
	defer mu.Unlock()
	if reg.stage != Begun {
		return apierr.ErrUnknownWatch
	}
	o := reg.observed
	if o == nil {
		o = &observed{}
	}
	before := o.Failed()
	newFailure, err := o.record(report, reg.scope, w.MayHave())
	if err != nil {
		return err
	}
	reg.observed, reg.reports = o, true
	if now := o.Failed(); newFailure || now != before {
		r.counts[reg.Resource()].report(before, now, newFailure)
	}
	return nil
}

// reportOf returns whether the client of a watch reports what it has applied, because it has said so or
// has reported, and its latest report.
func reportOf(w Watch) (reports bool, latest Reported) {
	reg, mu := w.registration(), w.Mutex()
	mu.Lock()
	defer mu.Unlock()
	return reg.reports, reg.reported()
}

// IsFailing reports whether the latest report of a watch has an error.
func IsFailing(w Watch) bool {
	_, latest := reportOf(w)
	return latest.Failed()
}
