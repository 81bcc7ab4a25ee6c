package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// ownStream is a stream of the method Watch, which carries one watch. A goroutine reads ahead of the watcher, so it
// notices the end of the stream while the caller is busy. When minBuffer waits, it stops reading. Then the flow control
// of gRPC stops the server.
type ownStream struct {
	inbox
	client *Client
	req    *fanoutv1.WatchRequest
	choice *serverChoice
	ctx    context.Context
	cancel context.CancelCauseFunc
	moves  bool // to a shared stream, when that becomes possible

	stream  grpc.ServerStreamingClient[fanoutv1.WatchResponse] // set before the first message is put
	reading sync.WaitGroup
	began   bool          // the goroutine was started; belongs to the watcher
	room    chan struct{} // wakes the goroutine; buffers one signal

	reporting sync.WaitGroup
	applied   chan struct{} // the caller may have applied more; buffers one signal
}

func newOwnStream(ctx context.Context, c *Client, avoid string, req *fanoutv1.WatchRequest) *ownStream {
	s := &ownStream{inbox: newInbox(), client: c, req: req, choice: &serverChoice{avoid: avoid}, room: make(chan struct{}, 1)}
	s.ctx, s.cancel = context.WithCancelCause(withoutDeadline{ctx})
	return s
}

// withoutDeadline is a context that ends with its parent but hides the deadline, so
// that gRPC does not send it. A server that knew the deadline would end the stream
// too; if it did so first, the caller would see an interruption.
type withoutDeadline struct{ context.Context }

// Deadline implements context.Context.
func (withoutDeadline) Deadline() (deadline time.Time, ok bool) { return time.Time{}, false }

// Recv implements watchStream. The first call opens the stream.
func (s *ownStream) Recv(limit time.Duration) (*message, error) {
	if !s.began {
		s.began = true
		s.reading.Go(func() { s.end(s.read()) })
	}
	for {
		m, err := s.take()
		if m != nil {
			s.wakeReader()
		}
		if m != nil || err != nil {
			return m, err
		}
		if !s.wait(limit) {
			err := fmt.Errorf("%w: no message for %v", errSilent, limit)
			s.choice.replace()
			s.cancel(err)
			return nil, err
		}
	}
}

func (s *ownStream) wakeReader() {
	select {
	case s.room <- struct{}{}:
	default:
	}
}

// read opens the stream, and reads it to its end. It returns why the stream has ended.
func (s *ownStream) read() error {
	received := false
	err := s.readAll(&received)
	if s.moves && !received {
		s.client.streams.watchFailed()
	}
	if !errors.Is(err, io.EOF) {
		err = errorOf(err)
	}
	return err
}

func (s *ownStream) readAll(received *bool) (err error) {
	if s.stream, err = s.client.reads.Watch(withServerChoice(s.ctx, s.choice), s.req); err != nil {
		return err
	}
	drained := false
	for arrivals := newArrivals(); ; {
		called := time.Now()
		m, err := s.stream.Recv()
		if err != nil {
			return err
		}
		if !*received && s.moves {
			s.client.streams.watchWorks()
		}
		*received = true
		if drained {
			continue
		}
		drained = m.GetKind() == fanoutv1.WatchResponse_KIND_DRAINING
		if m.GetResumeAtOnce() {
			s.choice.replace()
		}
		arrived := &message{WatchResponse: m, arrived: arrivals.received(called, time.Now()), size: sizeOf(m)}
		for !s.put(arrived, minBuffer) {
			select {
			case <-s.room:
			case <-s.ctx.Done():
				return grpcstatus.FromContextError(s.ctx.Err()).Err()
			}
		}
	}
}

// account implements watchStream: the bound is that of this stream alone.
func (s *ownStream) account(int) {}

// discard implements watchStream.
func (s *ownStream) discard() {
	s.clear()
	s.wakeReader()
}

func (s *ownStream) server() string { return s.choice.server() }

func (s *ownStream) shared() bool { return false }

func (s *ownStream) mayMove() bool { return s.moves && s.client.streams.subscribes() }

func (s *ownStream) close() {
	s.cancel(nil)
	s.reading.Wait()
	s.reporting.Wait()
}

// watchHeader is the key of the response header with the token of the watch, which reports need.
const watchHeader = "fanout-watch"

// id returns the name of the watch for reports, or "".
func (s *ownStream) id() string {
	header, err := s.stream.Header()
	if values := header.Get(watchHeader); err == nil && len(values) == 1 {
		return values[0]
	}
	return ""
}

// startReports implements watchStream. A goroutine sends the reports, because each one has an
// answer.
func (s *ownStream) startReports(r *streamReports) {
	id := s.id()
	if id == "" {
		return // the server does not know reports
	}
	s.applied = make(chan struct{}, 1)
	r.begin(s)
	s.reporting.Go(func() { s.report(id, r) })
}

// wakeReports implements reportCarrier.
func (s *ownStream) wakeReports() {
	select {
	case s.applied <- struct{}{}:
	default:
	}
}

// report is the goroutine that reports.
func (s *ownStream) report(id string, r *streamReports) {
	pauses := backoff{first: reportInterval, most: time.Minute}
	if sleep(s.ctx, time.Until(r.earliest())) != nil {
		return
	}
	for {
		p, ok := r.next(time.Now())
		if !ok {
			select {
			case <-s.ctx.Done():
				return
			case <-s.applied:
			}
			continue
		}
		pause := reportInterval
		switch err := s.send(id, p); grpcstatus.Code(err) {
		case codes.OK:
			r.done(p, time.Now())
			pauses.reset()
		case codes.Unimplemented, codes.NotFound:
			return // the server does not know reports, or another one has answered
		case codes.InvalidArgument:
			r.done(p, time.Now()) // it would be refused again
		default:
			asked := errorOfStatus(grpcstatus.Convert(err)).RetryAfter
			pause = max(pause, min(asked, maxRetryAfter)) + pauses.next()
		}
		if sleep(s.ctx, pause) != nil {
			return
		}
	}
}

// reportTimeout is how long the client waits for the answer to a report.
const reportTimeout = 10 * time.Second

// send sends a report.
func (s *ownStream) send(id string, p progress) error {
	ctx, cancel := context.WithTimeout(s.ctx, reportTimeout)
	defer cancel()
	req := &fanoutv1.ReportRequest{Watch: id, Applied: p.appliedMessage(), Error: p.errorMessage(), Attempted: p.attemptedMessage(), FailedKeys: p.failed}
	// Only the server that has the watch knows it.
	_, err := s.client.reads.Report(withServerChoice(ctx, &serverChoice{only: s.server()}), req)
	return err
}

// appliedMessage returns the applied position for a report, or nil if there is none.
func (p progress) appliedMessage() *fanoutv1.Position {
	if p.applied.Revision == 0 {
		return nil
	}
	return &fanoutv1.Position{Epoch: p.applied.Epoch, Revision: p.applied.Revision}
}

// attemptedMessage returns the attempted position for a report, or nil without an error.
func (p progress) attemptedMessage() *fanoutv1.Position {
	if p.err == nil {
		return nil
	}
	return &fanoutv1.Position{Epoch: p.attempted.Epoch, Revision: p.attempted.Revision}
}

// errorMessage returns the error for a report, or nil.
func (p progress) errorMessage() *status.Status {
	if p.err == nil {
		return nil
	}
	return &status.Status{Code: int32(codes.Unknown), Message: messageOfError(p.err)}
}
