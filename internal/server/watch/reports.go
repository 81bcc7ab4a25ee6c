package watch

import (
	"slices"
	"time"
	"unique"

	"google.golang.org/genproto/googleapis/rpc/code"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/backend"
	"github.com/fanoutd/fanoutd/internal/server/request"
)

// Reports are what the client of a watch has reported. The zero value means that it has reported
// nothing. A lock of the caller guards them.
type Reports struct {
	Reported
	waiting *Waiting // the oldest event after Applied; nil: none waits, or ObserveUnapplied was not called
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

// Condition returns the condition of the report, except for the lag.
func (r Reported) Condition() ReportCondition {
	return ReportCondition{Reported: r.Applied != (object.Position{}), Failing: r.failure != nil}
}

// Record records a report about a watch of a scope. The argument sent is the position of the latest
// message that the client may have received. It returns whether the report has an error that the report before
// did not have. The returned error explains what is wrong with the report; then nothing is recorded.
func (r *Reports) Record(report request.Report, scope object.Scope, sent object.Position) (newFailure bool, err error) {
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
// it has attempted may be of another epoch. Its error stays.
func (r *Reports) BeginReset() {
	r.Applied, r.waiting = object.Position{}, nil
	if r.failure != nil {
		f := *r.failure
		f.attempted = object.Position{}
		r.failure = &f
	}
}

// ObserveUnapplied completes the lag of the events after the applied position, as
// [Waiting.Observe] does. It does nothing if another report has come meanwhile.
func (r *Reports) ObserveUnapplied(applied object.Position, backlog dispatch.Backlog, lag *backend.Lag) {
	if r.Applied == applied {
		r.waiting = r.waiting.Observe(applied, backlog, lag)
	}
}

// AppliedLagOf returns how long the oldest event of a backlog has waited to be applied. It is 0
// only if there is no event, because the time at which an event arrived may be unknown.
func AppliedLagOf(backlog dispatch.Backlog, lag backend.Lag) time.Duration {
	if backlog.Events == 0 {
		return 0
	}
	return max(lag.Waited, 1)
}

// SetReported sets the fields of the status of a watch that show its latest report.
func SetReported(s *fanoutv1.WatcherStatus, r Reported, appliedLag func(applied object.Position) (time.Duration, bool)) {
	if f := r.failure; f != nil {
		s.Error = &rpcstatus.Status{Code: int32(f.code), Message: f.message.Value()}
		s.ErrorTime = timestamppb.New(f.since)
		for _, key := range f.keys {
			s.FailedKeys = append(s.FailedKeys, string(key.Value()))
		}
		if f.attempted != (object.Position{}) {
			s.Attempted = backend.ProtoPosition(f.attempted)
		}
	}
	if r.Applied == (object.Position{}) {
		return
	}
	s.Applied = backend.ProtoPosition(r.Applied)
	if lag, ok := appliedLag(r.Applied); ok {
		s.AppliedLag = durationpb.New(lag)
	}
}
