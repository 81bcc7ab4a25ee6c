package subscribe

import (
	"time"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/backend"
	"github.com/fanoutd/fanoutd/internal/server/request"
	"github.com/fanoutd/fanoutd/internal/server/watch"
)

// report records how far the client has applied a watch. Reports have no answer, so one that is
// wrong, or for which there is no watch, is ignored.
func (s *stream) report(req *fanoutv1.SubscribeRequest_Report) {
	limits := s.service.cfg.Interceptors.Limits
	if err := limits.AllowReport(s.client); err != nil {
		limits.Refuse(s.ctx, err)
		return
	}
	report, err := request.ParseStreamReport(req)
	if err != nil {
		return
	}
	s.table.mu.Lock()
	e := s.table.byID[req.GetWatchId()]
	newFailure := e != nil && e.Index > 0 && e.record(report)
	s.table.mu.Unlock()
	if newFailure {
		s.service.cfg.Watches.CountReportedError(e.Resource(), s.queue.Worker())
	}
}

// record records a report, and returns whether it has another error than the one before. It is
// called with table.mu held, so before the watch is counted as ended.
func (e *entry) record(r request.Report) (newFailure bool) {
	o := e.observed
	if o == nil {
		o = &observed{}
	}
	failed := o.Failed()
	newFailure, err := o.Record(r, e.Scope(), e.StreamWatch.MayHave())
	if err != nil {
		return false
	}
	if o.Failed() != failed {
		e.stream.service.cfg.Watches.Registry.NoteReport(e.Resource(), o.Failed())
	}
	e.observed, e.reports = o, true
	return newFailure
}

// Reports implements [watch.Watch].
func (e *entry) Reports() bool {
	t := &e.stream.table
	t.mu.Lock()
	defer t.mu.Unlock()
	return e.reports
}

// Subscriber implements [watch.Watch]. The watches of a stream share the name.
func (e *entry) Subscriber() watch.SubscriberName {
	if name := e.stream.name.Load(); name != nil {
		return *name
	}
	return watch.SubscriberName{}
}

// Reported implements [watch.Watch].
func (e *entry) Reported() (r watch.Reported) {
	e.observe(false, func(o *observed) { r = o.Reported })
	return r
}

// appliedLag returns how long the oldest event after the applied position has waited.
func (e *entry) appliedLag(st *dispatch.StreamWatchStatus, applied object.Position, lags watch.Lags) (time.Duration, bool) {
	l := e.lag(st, lags)
	if !l.Known {
		return 0, false
	}
	if applied != st.Sent {
		l.Backlog = e.Unapplied(applied)
		l.Lag = e.resource.LagOf(l.Backlog, applied)
	}
	e.observe(false, func(o *observed) { o.ObserveUnapplied(applied, l.Backlog, &l.Lag) })
	return watch.AppliedLagOf(l.Backlog, l.Lag), true
}

// Quiet implements [watch.Watch]. If the client has applied the latest message of the watch, it has
// applied everything up to the position to which the stream has sent everything, however old the
// log is.
func (e *entry) Quiet(applied object.Position, to object.Revision) bool {
	if w, ok := e.uncached.(backend.Watcher); ok {
		return w.Quiet(applied, to)
	}
	st := e.StreamWatch.Status()
	if applied.Epoch == st.Sent.Epoch && applied.Revision >= st.Sent.Revision && st.Complete.Revision >= to {
		return true
	}
	return e.StreamWatch.Quiet(applied, to)
}
