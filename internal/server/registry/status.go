package registry

import (
	"time"

	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/backend"
)

// Sample is what the server sees of a watch at one moment.
type Sample struct {
	Progress Progress
	Lagging
	Report ReportSample
}

// SampleOf looks at a watch.
func SampleOf(w Watch, lags Lags) Sample {
	_, reported := reportOf(w)
	return sampleOf(w, lags, reported)
}

// sampleOf looks at a watch with a report.
func sampleOf(w Watch, lags Lags, r Reported) Sample {
	c := Sample{Progress: w.Progress(), Report: ReportSample{Reported: r.Applied != (object.Position{}), Failing: r.Failed()}}
	c.Lagging = laggingOf(w, &c.Progress, lags)
	if c.Report.Reported {
		c.Report.Lag, c.Report.LagKnown = appliedLag(w, &c.Progress, c.Lagging, r.Applied)
	}
	return c
}

// StatusOf returns what ListWatchers shows of a watch.
func StatusOf(w Watch, lags Lags) *fanoutv1.WatcherStatus {
	reports, reported := reportOf(w)
	sample := sampleOf(w, lags, reported)
	s := notableStatus(w, &sample.Progress, reports, reported)
	complete(s, w, sample)
	return s
}

// complete fills in all fields of a status that [notableStatus] leaves empty, for all entrances.
func complete(s *fanoutv1.WatcherStatus, w Watch, c Sample) {
	reg, caller, p := w.registration(), w.Caller(), &c.Progress
	s.Id, s.Peer, s.UserAgent, s.Identity = IDOf(w), caller.Peer, caller.UserAgent, caller.Identity.Name
	s.Request, s.Since = reg.Request(), timestamppb.New(reg.Began())
	s.Position, s.Messages, s.Bytes = backend.ProtoPosition(p.Position), p.Messages, p.Bytes
	if l := c.Lagging; l.Known {
		s.LagRevisions, s.Lag, s.LagIsMinimum = &l.Lag.Revisions, durationpb.New(l.Lag.Waited), l.Lag.IsMinimum
		if l.Backlog.Events >= 0 {
			s.LagEvents = new(int64(l.Backlog.Events))
		}
	}
	if c.Report.LagKnown {
		s.AppliedLag = durationpb.New(c.Report.Lag)
	}
}

// notableStatus returns the part of the status that may change, but not with each event and not with
// time. When it changes for a watch that has not applied a revision, WatchApplied sends a message.
func notableStatus(w Watch, p *Progress, reports bool, reported Reported) *fanoutv1.WatcherStatus {
	s := &fanoutv1.WatcherStatus{
		Subscriber: w.Caller().Name().Subscriber(), State: fanoutv1.WatcherStatus_STATE_LIVE, Blocked: p.Blocked, Reports: reports,
	}
	if p.CatchingUp {
		s.State = fanoutv1.WatcherStatus_STATE_CATCHING_UP
	}
	if reported.Applied != (object.Position{}) {
		s.Applied = backend.ProtoPosition(reported.Applied)
	}
	if f := reported.failure; f != nil {
		s.Error = &rpcstatus.Status{Code: int32(f.code), Message: f.message.Value()}
		s.ErrorTime = timestamppb.New(f.since)
		for _, key := range f.keys {
			s.FailedKeys = append(s.FailedKeys, string(key.Value()))
		}
		if f.attempted != (object.Position{}) {
			s.Attempted = backend.ProtoPosition(f.attempted)
		}
	}
	return s
}

// laggingOf returns how far a watch is behind.
func laggingOf(w Watch, p *Progress, lags Lags) Lagging {
	reg := w.registration()
	if reg.resource.Dispatcher == nil || p.Position.Revision == 0 {
		return Lagging{}
	}
	if l, ok := lags[p.Shared]; ok {
		return l
	}
	l := Lagging{Backlog: p.Backlog, Lag: reg.resource.LagOf(p.Backlog, p.Position), Known: true}
	mu := w.Mutex()
	mu.Lock()
	reg.observeWaiting(p.Position, l.Backlog, &l.Lag)
	mu.Unlock()
	lags.note(p.Shared, l)
	return l
}

// appliedLag returns how long the oldest event after the applied position has waited. It returns
// false if that is unknown.
func appliedLag(w Watch, p *Progress, sent Lagging, applied object.Position) (time.Duration, bool) {
	if !sent.Known {
		return 0, false
	}
	if applied == p.Position { // most watches
		return waitedFor(sent.Backlog, sent.Lag), true
	}
	reg, backlog := w.registration(), w.Unapplied(applied)
	lag := reg.resource.LagOf(backlog, applied)
	mu := w.Mutex()
	mu.Lock()
	defer mu.Unlock()
	if o := reg.observed; o != nil && o.Applied == applied { // else another report has come meanwhile
		o.unapplied = o.unapplied.observe(applied, backlog, &lag)
	}
	return waitedFor(backlog, lag), true
}

// waitedFor returns how long the oldest event of a backlog has waited to be applied. It is 0 only if
// there is no event, because the time at which an event arrived may be unknown.
func waitedFor(backlog feed.Backlog, lag backend.Lag) time.Duration {
	if backlog.Events == 0 {
		return 0
	}
	return max(lag.Waited, 1)
}
