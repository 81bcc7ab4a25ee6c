package subscribe

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/access/policy"
	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/backend"
	"github.com/fanoutd/fanoutd/internal/server/watch"
)

// entry is one watch of a stream. It implements [watch.Watch]. There may be a million of them, so
// it has nothing that the stream has, and what few watches need is behind a pointer.
type entry struct {
	dispatch.StreamWatch // its index is 0 until the watch is complete

	stream          *stream
	resource        *backend.Resource
	scope           object.Scope // the policy must grant the watch of it as long as the watch lasts
	summary         watch.Summary
	since           time.Duration          // from the beginning of the stream to that of the watch
	state           state                  // guarded by stream.calls
	reports         bool                   // guarded by table.mu: the client has said so, or has reported
	releaseSelector func()                 // nil: its selector costs nothing
	uncached        dispatch.DirectWatcher // nil: the resource has a cache
	observed        *observed              // guarded by table.mu; nil: nothing was reported, and no event was seen waiting
}

// state is how far a watch has come.
type state uint8

const (
	stateWaiting state = iota // waits for etcd; the outbox does not know it
	stateStarted              // the outbox has it, or has sent its end
	stateDropped              // has ended before it was started
)

// observed is what few watches need.
type observed struct {
	watch.Reports
	waiting *watch.Waiting // the oldest event that waits for the watch
}

// question asks whether the caller may have the watch.
func (e *entry) question() policy.Question {
	return policy.Question{Verb: policy.Watch, Resource: e.resource.Name, Scope: e.scope}
}

// began returns when the watch began.
func (e *entry) began() time.Time { return e.stream.since.Add(e.since) }

// ID implements [watch.Watch].
func (e *entry) ID() string { return e.stream.service.cfg.Watches.Registry.ID(e.Number()) }

// Number implements [watch.Watch].
func (e *entry) Number() watch.Number { return watch.Number{RPC: e.stream.number, Index: e.Index} }

// Resource implements [watch.Watch].
func (e *entry) Resource() string { return e.resource.Name }

// Scope implements [watch.Watch].
func (e *entry) Scope() object.Scope { return e.scope }

// End implements [watch.Watch].
func (e *entry) End(reason error) {
	s := e.stream
	s.calls.Lock()
	defer s.calls.Unlock()
	switch {
	case s.closed:
	case e.state == stateWaiting:
		s.drop(e)
		s.refuse(e.StreamWatch.ID, e.Resource(), reason)
		s.finishIfIdle()
	case e.state == stateStarted:
		s.out.End(&e.StreamWatch, endingOf(reason))
	}
}

// Status implements [watch.Watch].
func (e *entry) Status(lags watch.Lags) *fanoutv1.WatcherStatus {
	st := e.StreamWatch.Status()
	s := &fanoutv1.WatcherStatus{
		Id:        e.ID(),
		Peer:      e.stream.peer,
		UserAgent: e.stream.userAgent,
		Identity:  e.stream.identity.Name,
		Request:   e.summary.Request(e.scope),
		Since:     timestamppb.New(e.began()),
		State:     fanoutv1.WatcherStatus_STATE_LIVE,
		Blocked:   e.isBlocked(&st),
		Position:  backend.ProtoPosition(st.Sent),
		Messages:  st.Messages,
		Bytes:     st.Bytes,
	}
	if st.CatchingUp {
		s.State = fanoutv1.WatcherStatus_STATE_CATCHING_UP
	}
	s.Subscriber, s.Reports = e.Subscriber().Subscriber(), e.Reports()
	watch.SetReported(s, e.Reported(), func(applied object.Position) (time.Duration, bool) {
		return e.appliedLag(&st, applied, lags)
	})
	if l := e.lag(&st, lags); l.Known {
		watch.SetLag(s, l.Backlog, l.Lag)
	}
	return s
}

// Condition implements [watch.Watch].
func (e *entry) Condition(lags watch.Lags) watch.Condition {
	st := e.StreamWatch.Status()
	c := watch.Condition{CatchingUp: st.CatchingUp, Blocked: e.isBlocked(&st), NoPosition: st.Sent.Revision == 0}
	l := e.lag(&st, lags)
	c.Backlog, c.Lag, c.LagKnown = l.Backlog, l.Lag, l.Known
	reported := e.Reported()
	if c.Report = reported.Condition(); c.Report.Reported {
		c.Report.Lag, c.Report.LagKnown = e.appliedLag(&st, reported.Applied, lags)
	}
	return c
}

// isBlocked reports whether a message waits for the client.
func (e *entry) isBlocked(st *dispatch.StreamWatchStatus) bool {
	return st.Waiting || e.stream.sink.isBlocked()
}

// lag returns how far the watch is behind. That is unknown without a cache, and within a RESET.
func (e *entry) lag(st *dispatch.StreamWatchStatus, lags watch.Lags) watch.Lagging {
	if e.resource.Dispatcher == nil || st.Sent.Revision == 0 {
		return watch.Lagging{}
	}
	shared := e.Shared()
	if l, ok := lags[shared]; ok {
		return l
	}
	l := watch.Lagging{Backlog: st.Backlog, Lag: e.resource.LagOf(st.Backlog, st.Sent), Known: true}
	e.observe(st.Backlog.Events != 0, func(o *observed) { o.waiting = o.waiting.Observe(st.Sent, l.Backlog, &l.Lag) })
	lags.Note(shared, l)
	return l
}

// observe calls a function with what was observed of the watch. If nothing was, it calls the
// function only if create is set.
func (e *entry) observe(create bool, do func(*observed)) {
	t := &e.stream.table
	t.mu.Lock()
	defer t.mu.Unlock()
	if e.observed == nil {
		if !create {
			return
		}
		e.observed = &observed{}
	}
	do(e.observed)
}
