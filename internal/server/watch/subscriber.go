package watch

import (
	"time"
	"unique"

	"google.golang.org/protobuf/proto"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/request"
)

// subscriber is what the client of a watch has sent about itself: its name and its latest
// report.
type subscriber struct {
	name SubscriberName
	Reports
}

// SubscriberName is an encoded Subscriber. Watches with equal names share one copy in memory.
// The zero value is no name.
type SubscriberName struct{ encoded unique.Handle[string] }

// NameOf returns the name of a subscriber. It leaves out unknown fields.
func NameOf(s *fanoutv1.Subscriber) SubscriberName {
	if s.GetInstance() == "" && len(s.GetLabels()) == 0 {
		return SubscriberName{}
	}
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(&fanoutv1.Subscriber{Instance: s.GetInstance(), Labels: s.GetLabels()})
	if err != nil {
		b = nil // cannot happen: the request was unmarshalled
	}
	return SubscriberName{unique.Make(string(b))}
}

// Subscriber returns the name as a message, or nil if there is none.
func (n SubscriberName) Subscriber() *fanoutv1.Subscriber {
	if n == (SubscriberName{}) {
		return nil
	}
	s := &fanoutv1.Subscriber{}
	_ = proto.Unmarshal([]byte(n.encoded.Value()), s) // NameOf has marshalled it
	return s
}

// Report records how far the client has applied the watch. It wakes nothing. The error says
// what is wrong with the report; then nothing is recorded.
func (e *Entry) Report(r request.Report) error {
	changed, err := e.record(r)
	if changed {
		e.registry.noteReport(e)
	}
	return err
}

// record records a report. It returns whether the watch is failing now and was not before, or the
// other way round.
func (e *Entry) record(r request.Report) (changed bool, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	sent := e.at
	if e.sending {
		sent = *e.next // gRPC may have accepted the message, so the client may have applied it
	}
	s := e.subscriber
	if s == nil {
		s = &subscriber{}
	}
	failed := s.Failed()
	newFailure, err := s.Record(r, e.scope, sent)
	if err != nil {
		return false, err
	}
	e.subscriber, e.reports = s, true
	if newFailure {
		e.sender.counters.reportedErrors.Add(1)
	}
	return s.Failed() != failed, nil
}

// Reported implements [Watch].
func (e *Entry) Reported() Reported {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.subscriber == nil {
		return Reported{}
	}
	return e.subscriber.Reported
}

// Reports implements [Watch].
func (e *Entry) Reports() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.reports
}

// Subscriber implements [Watch].
func (e *Entry) Subscriber() SubscriberName {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.subscriber == nil {
		return SubscriberName{}
	}
	return e.subscriber.name
}

// Quiet implements [Watch].
func (e *Entry) Quiet(applied object.Position, to object.Revision) bool {
	return e.watcher.Quiet(applied, to)
}

// addSubscriber adds to a status what the client has sent about itself.
func (e *Entry) addSubscriber(s *fanoutv1.WatcherStatus, at object.Position) {
	e.mu.Lock()
	known := e.subscriber
	s.Reports = e.reports
	if known == nil {
		e.mu.Unlock()
		return
	}
	about := *known
	e.mu.Unlock()
	s.Subscriber = about.name.Subscriber()
	SetReported(s, about.Reported, func(applied object.Position) (time.Duration, bool) { return e.appliedLag(applied, at) })
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
		return AppliedLagOf(backlog, lag), ok
	}
	backlog, lag := e.resource.Unapplied(w, applied)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.subscriber.ObserveUnapplied(applied, backlog, &lag)
	return AppliedLagOf(backlog, lag), true
}
