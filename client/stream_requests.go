package client

import (
	"container/heap"
	"time"

	"google.golang.org/grpc"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// write is the goroutine that writes the requests of a stream after the first.
func (s *sharedStream) write(stream grpc.BidiStreamingClient[fanoutv1.SubscribeRequest, fanoutv1.SubscribeResponse]) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		req, wait := s.nextRequest()
		for ; req == nil; req, wait = s.nextRequest() {
			timer.Reset(wait)
			select {
			case <-s.ctx.Done():
				return
			case <-s.written:
			case <-timer.C:
			}
		}
		if stream.Send(req) != nil {
			return // the reader gets the error
		}
	}
}

// nextRequest returns what to write next, or nil and when to ask again.
func (s *sharedStream) nextRequest() (req *fanoutv1.SubscribeRequest, wait time.Duration) {
	for {
		now := time.Now()
		s.mu.Lock()
		req := s.nextStartOrStop()
		var w *streamWatch
		wait := time.Hour
		if req == nil && len(s.reports) > 0 {
			if wait = s.reports[0].reportAt.Sub(now); wait <= 0 {
				w = heap.Pop(&s.reports).(*streamWatch)
				if at := w.reports.earliest(); at.After(now) { // it was queued while its last report was written
					w.reportAt = at
					heap.Push(&s.reports, w)
					s.mu.Unlock()
					continue
				}
				w.reportQueued.Store(false)
			}
		}
		gone := w != nil && w.gone
		s.mu.Unlock()
		switch {
		case w == nil:
			return req, wait
		case gone:
			continue
		}
		if p, ok := w.reports.next(now); ok {
			w.reports.done(p, now)
			return &fanoutv1.SubscribeRequest{Request: &fanoutv1.SubscribeRequest_Report_{Report: &fanoutv1.SubscribeRequest_Report{
				WatchId: w.id, Applied: p.appliedMessage(), Error: p.errorMessage(), Attempted: p.attemptedMessage(), FailedKeys: p.failed,
			}}}, 0
		}
	}
}

// nextStartOrStop returns the next start or stop, or nil. The caller holds mu.
func (s *sharedStream) nextStartOrStop() *fanoutv1.SubscribeRequest {
	for len(s.requests) > 0 && s.requests[0].unwritten {
		s.requests = s.requests[1:]
	}
	if len(s.requests) == 0 {
		s.requests = nil
		return nil
	}
	w := s.requests[0]
	s.requests = s.requests[1:]
	if start := w.start; start != nil {
		w.start = nil
		return &fanoutv1.SubscribeRequest{Request: &fanoutv1.SubscribeRequest_Start_{Start: &fanoutv1.SubscribeRequest_Start{WatchId: w.id, Request: start}}}
	}
	return &fanoutv1.SubscribeRequest{Request: &fanoutv1.SubscribeRequest_Stop_{Stop: &fanoutv1.SubscribeRequest_Stop{WatchId: w.id}}}
}

// reportQueue has the watches that may have something to report, ordered by the time from which
// they may report.
type reportQueue []*streamWatch

func (q reportQueue) Len() int           { return len(q) }
func (q reportQueue) Less(i, j int) bool { return q[i].reportAt.Before(q[j].reportAt) }
func (q reportQueue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *reportQueue) Push(w any)        { *q = append(*q, w.(*streamWatch)) }
func (q *reportQueue) Pop() any {
	all := *q
	last := all[len(all)-1]
	all[len(all)-1] = nil
	*q = all[:len(all)-1]
	return last
}

// queueReport makes the writer ask a watch for its report as soon as it may send one.
func (s *sharedStream) queueReport(w *streamWatch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.gone || w.reportQueued.Swap(true) {
		return
	}
	w.reportAt = w.reports.earliest()
	heap.Push(&s.reports, w)
	if s.reports[0] == w {
		s.wakeWriter()
	}
}
