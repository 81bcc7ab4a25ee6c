package watch

import (
	"time"
	"unique"

	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/backend"
	"github.com/fanoutd/fanoutd/internal/server/request"
)

// subscriber is what the client of a watch has said about itself: its name and its latest
// report.
type subscriber struct {
	name    subscriberName
	applied object.Position // the latest that was reported; zero: none, or a RESET has begun since
	failure *failure        // the error of the latest report; nil: none
	waiting *Waiting        // the oldest event after applied; nil: none waits, or appliedLag was not called
}

// subscriberName is an encoded Subscriber. Watches with equal names share one copy in memory.
// The zero value is no name.
type subscriberName struct{ encoded unique.Handle[string] }

// failure is an error that a client has reported. It never changes.
type failure struct {
	request.Failure
	since time.Time
}

// nameOf returns the name of a subscriber. It leaves out unknown fields.
func nameOf(s *fanoutv1.Subscriber) subscriberName {
	if s.GetInstance() == "" && len(s.GetLabels()) == 0 {
		return subscriberName{}
	}
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(&fanoutv1.Subscriber{Instance: s.GetInstance(), Labels: s.GetLabels()})
	if err != nil {
		b = nil // cannot happen: the request was unmarshalled
	}
	return subscriberName{unique.Make(string(b))}
}

// subscriber returns the name as a message, or nil if there is none.
func (n subscriberName) subscriber() *fanoutv1.Subscriber {
	if n == (subscriberName{}) {
		return nil
	}
	s := &fanoutv1.Subscriber{}
	_ = proto.Unmarshal([]byte(n.encoded.Value()), s) // nameOf has marshalled it
	return s
}

// Report records how far the client has applied the watch. It wakes nothing. The error says
// what is wrong with the report; then nothing is recorded.
func (e *Entry) Report(r request.Report) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	sent := e.at
	if e.sending {
		sent = *e.next // gRPC may have accepted the message, so the client may have applied it
	}
	applied, err := r.AppliedUpTo(sent)
	if err != nil {
		return err
	}
	if e.subscriber == nil {
		e.subscriber = &subscriber{}
	}
	s := e.subscriber
	if applied != (object.Position{}) {
		s.applied = applied
	}
	switch {
	case r.Failure == request.Failure{}:
		s.failure = nil
	case s.failure == nil || s.failure.Failure != r.Failure:
		s.failure = &failure{r.Failure, time.Now()}
		e.sender.counters.reportedErrors.Add(1)
	}
	return nil
}

// reported returns the latest report of the client. The position is zero if there is none.
func (e *Entry) reported() (applied object.Position, f *failure) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.subscriber == nil {
		return object.Position{}, nil
	}
	return e.subscriber.applied, e.subscriber.failure
}

// forgetApplied records that a RESET begins: the client no longer has what it had applied. The
// caller holds mu.
func (e *Entry) forgetApplied() {
	if s := e.subscriber; s != nil {
		s.applied, s.waiting = object.Position{}, nil
	}
}

// addSubscriber adds to a status what the client has said about itself.
func (e *Entry) addSubscriber(s *fanoutv1.WatcherStatus, at object.Position) {
	e.mu.Lock()
	known := e.subscriber
	if known == nil {
		e.mu.Unlock()
		return
	}
	about := *known
	e.mu.Unlock()
	s.Subscriber = about.name.subscriber()
	if f := about.failure; f != nil {
		s.Error = &rpcstatus.Status{Code: int32(f.Code), Message: f.Message}
		s.ErrorTime = timestamppb.New(f.since)
	}
	if about.applied == (object.Position{}) {
		return
	}
	s.Applied = backend.ProtoPosition(about.applied)
	if lag, ok := e.appliedLag(about.applied, at); ok {
		s.AppliedLag = durationpb.New(lag)
	}
}

// appliedLag returns how long the oldest event after the applied position has waited. It
// returns false if that is unknown. The position at is that of the latest message.
func (e *Entry) appliedLag(applied, at object.Position) (time.Duration, bool) {
	w, ok := e.watcher.(*dispatch.Watcher)
	if !ok || at.Revision == 0 {
		return 0, false
	}
	if applied == at {
		backlog, lag, ok := e.lag(at)
		return waited(backlog, lag), ok
	}
	backlog, lag := e.resource.Unapplied(w, applied)
	e.mu.Lock()
	defer e.mu.Unlock()
	if s := e.subscriber; s.applied == applied { // no report has come meanwhile
		s.waiting = s.waiting.Observe(applied, backlog, &lag)
	}
	return waited(backlog, lag), true
}

// waited returns how long the oldest event of a backlog has waited. It is 0 only if there is
// no event, because the time at which an event arrived may be unknown.
func waited(b dispatch.Backlog, l backend.Lag) time.Duration {
	if b.Events == 0 {
		return 0
	}
	return max(l.Waited, 1)
}
