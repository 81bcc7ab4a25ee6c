package client

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// reportInterval is the least time between two reports of a watch.
const reportInterval = time.Second

// quietInterval is the least time between two reports of a watch that has received only bookmarks
// since the first of them. The server knows that nothing else is to be applied, so these reports
// matter only to people.
const quietInterval = time.Minute

// reporter reports to the server how far a watch was applied.
type reporter struct {
	// progress returns how far the watch was applied. If it is nil, nothing is reported.
	// It must not wait.
	progress func() progress
	onReport func(progress)                // is called after a report; may be nil
	current  atomic.Pointer[streamReports] // nil if no stream takes reports
}

// wake makes the reporter report the progress soon.
func (r *reporter) wake() {
	if s := r.current.Load(); s != nil {
		s.carrier.wakeReports()
	}
}

// streamReports are the reports for one stream of a watch. The server knows each stream by
// another id.
type streamReports struct {
	*reporter
	carrier reportCarrier

	mu        sync.Mutex
	sent      Position  // the last one that the server has sent; guarded by mu
	news      Position  // the last one that was not only a bookmark; guarded by mu
	reset     bool      // the server is sending a RESET, and ignores reports; guarded by mu
	forgotten bool      // a RESET has ended since next was called; guarded by mu
	reported  progress  // guarded by mu
	last      time.Time // of the last report; guarded by mu
	tried     time.Time // when next has returned a report, also of the last stream; guarded by mu
}

// reportCarrier sends the reports of a stream. wakeReports makes it ask for the next one soon. It
// must not wait.
type reportCarrier interface{ wakeReports() }

// begin makes the carrier report from now on.
func (s *streamReports) begin(c reportCarrier) {
	s.carrier = c
	s.current.Store(s)
}

// end ends the reports.
func (s *streamReports) end() { s.current.CompareAndSwap(s, nil) }

// received notes the position after a message.
func (s *streamReports) received(m *message, at Position) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent = at
	if m.GetKind() != fanoutv1.WatchResponse_KIND_BOOKMARK {
		s.news = at
	}
	switch {
	case m.GetKind() == fanoutv1.WatchResponse_KIND_CATCH_UP_BEGIN && m.GetCatchUp() == fanoutv1.WatchResponse_CATCH_UP_RESET:
		s.reset = true
	case m.GetKind() == fanoutv1.WatchResponse_KIND_SYNCED && s.reset:
		// The server has forgotten the report when the RESET began.
		s.reset, s.forgotten, s.reported = false, true, progress{}
	}
}

// next returns what to report now, if there is anything.
func (s *streamReports) next(now time.Time) (p progress, ok bool) {
	p = s.progress()
	s.mu.Lock()
	defer s.mu.Unlock()
	if ok = s.shouldReport(p, now); ok {
		s.forgotten, s.tried = false, now
	}
	return p, ok
}

// done notes a report, which next has returned.
func (s *streamReports) done(p progress, at time.Time) {
	s.mu.Lock()
	s.last = at
	forgotten := s.forgotten
	if !forgotten {
		s.reported = p
	}
	s.mu.Unlock()
	if s.onReport != nil && !forgotten {
		s.onReport(p)
	}
}

// earliest returns the time from which the next report may be sent.
func (s *streamReports) earliest() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tried.IsZero() {
		return s.tried
	}
	return s.tried.Add(reportInterval)
}

// following returns the reports for the next stream, which resumes at a position.
func (s *streamReports) following(at Position) *streamReports {
	s.mu.Lock()
	defer s.mu.Unlock()
	// The caller may not have applied everything yet that earlier streams have sent.
	return &streamReports{reporter: s.reporter, news: at, tried: s.tried}
}

// shouldReport reports whether the server should and can know a progress. The caller holds mu.
func (s *streamReports) shouldReport(p progress, now time.Time) bool {
	if p.applied.Revision > 0 && (p.applied.Epoch != s.sent.Epoch || p.applied.Revision > s.sent.Revision) {
		return false // it belongs to an earlier stream; this one is sending a new state
	}
	if p.err != nil || s.reported.err != nil {
		// Without a report of what was attempted, [Wait] would take an error for an earlier one.
		return p.applied != s.reported.applied || p.attempted.isAfter(s.reported.attempted) ||
			messageOfError(p.err) != messageOfError(s.reported.err) || !slices.Equal(p.failed, s.reported.failed)
	}
	// Without an error, the position goes back only while another receiver begins.
	if !p.applied.isAfter(s.reported.applied) {
		return false
	}
	return s.reported.applied.Revision == 0 || s.news.isAfter(s.reported.applied) || now.Sub(s.last) >= quietInterval
}

// isAfter reports whether a position is later than another one, or of another epoch.
func (p Position) isAfter(q Position) bool {
	return p.Revision > 0 && (p.Epoch != q.Epoch || p.Revision > q.Revision)
}

// maxErrorMessage bounds the message of a reported error, in bytes.
const maxErrorMessage = 1 << 10

// messageOfError returns what is reported of an error.
func messageOfError(err error) string {
	if err == nil {
		return ""
	}
	message := strings.ToValidUTF8(err.Error(), "\uFFFD")
	if len(message) > maxErrorMessage {
		message = strings.ToValidUTF8(message[:maxErrorMessage], "")
	}
	return message
}
