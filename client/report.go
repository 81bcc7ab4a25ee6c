package client

import (
	"context"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// reportInterval is the least time between two reports of a watch.
const reportInterval = time.Second

// reporter reports to the server how far a watch was applied.
type reporter struct {
	// progress returns how far the watch was applied. If it is nil, nothing is reported.
	progress func() progress
	changed  chan struct{} // the progress may have changed; buffers one signal
}

// wake makes the reporter report the progress soon.
func (r *reporter) wake() {
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// streamReports are the reports for one stream of a watch. The server knows each stream by
// another id.
type streamReports struct {
	*reporter
	cancel  context.CancelFunc // nil until the first message
	running sync.WaitGroup

	mu   sync.Mutex
	sent Position // the last one that the server has sent; guarded by mu
}

// received notes the position after a message. The first message begins the reports.
func (r *streamReports) received(ctx context.Context, s watchStream, at Position) {
	r.mu.Lock()
	r.sent = at
	r.mu.Unlock()
	if r.cancel != nil || r.progress == nil {
		return
	}
	ctx, r.cancel = context.WithCancel(ctx)
	if s.acceptsReports() {
		r.running.Go(func() { r.run(ctx, s) })
	}
}

// stop ends the reports.
func (r *streamReports) stop() {
	if r.cancel != nil {
		r.cancel()
		r.running.Wait()
	}
}

// run is the goroutine that reports.
func (r *streamReports) run(ctx context.Context, s watchStream) {
	var reported progress
	pauses := backoff{first: reportInterval, most: time.Minute}
	for {
		p := r.progress()
		if !r.shouldReport(p, reported) {
			select {
			case <-ctx.Done():
				return
			case <-r.changed:
			}
			continue
		}
		pause := reportInterval
		switch err := s.report(ctx, p); status.Code(err) {
		case codes.OK:
			reported = p
			pauses.reset()
		case codes.Unimplemented, codes.NotFound:
			return // the server does not know reports, or another one has answered
		case codes.InvalidArgument:
			reported = p // it would be refused again
		default:
			pause += pauses.next()
		}
		if sleep(ctx, pause) != nil {
			return
		}
	}
}

// shouldReport reports whether the server should and can know a progress.
func (r *streamReports) shouldReport(p, reported progress) bool {
	r.mu.Lock()
	sent := r.sent
	r.mu.Unlock()
	if p.applied.Revision > 0 && (p.applied.Epoch != sent.Epoch || p.applied.Revision > sent.Revision) {
		return false // it belongs to an earlier stream; this one is sending a new state
	}
	if p.err != nil || reported.err != nil {
		// Without a report of what was attempted, [Wait] would take an error for an earlier one.
		return p.applied != reported.applied || p.attempted.isAfter(reported.attempted) || messageOfError(p.err) != messageOfError(reported.err)
	}
	// Without an error, the position goes back only while another receiver begins.
	return p.applied.isAfter(reported.applied)
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
