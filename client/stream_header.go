package client

import (
	"context"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// errNoHeader is the cause of the end of a stream whose server answers other requests, but not
// Subscribe. Some proxies wait for the end of the requests before they pass on the answer.
var errNoHeader = fmt.Errorf("%w: no answer to Subscribe", errSilent)

// errNoAnswer is the cause of the end of a stream whose server answers nothing.
var errNoAnswer = fmt.Errorf("%w: no answer to Subscribe and to other requests", errSilent)

// The header of the response comes at once, so a proxy that does not pass it on is found early. It has
// more time if it has come before, because then a slow server is more likely.
//
// Time alone proves nothing: a client without CPU is late itself, because it does not read what has
// arrived, and so is a busy server. So the client then makes another request, which takes the same
// way. Only if that is answered first, and the header does not come in as much time again, is
// something wrong with Subscribe.
const (
	firstHeaderTimeout = 5 * time.Second
	headerTimeout      = 20 * time.Second
	otherTimeout       = 20 * time.Second // of the other request
)

// awaitHeader writes the first request and waits for the header of the response. It reports whether the
// header has come. Its goroutines end with the stream.
func (s *sharedStream) awaitHeader(stream grpc.BidiStreamingClient[fanoutv1.SubscribeRequest, fanoutv1.SubscribeResponse], beside *sync.WaitGroup) bool {
	// Written here, it is on its way before the time begins. It never waits for flow control. If it fails, the
	// reader gets the error.
	_ = stream.Send(&fanoutv1.SubscribeRequest{Request: &fanoutv1.SubscribeRequest_Subscriber{Subscriber: s.pool.client.subscriber}})
	beside.Go(func() { s.write(stream) })
	s.mu.Lock()
	s.asked = true
	s.mu.Unlock()
	ctx, over := context.WithCancel(s.ctx)
	defer over()
	beside.Go(func() { s.limitHeader(ctx) })
	header, err := stream.Header()
	if header == nil || err != nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answered = time.Now()
	s.begun.at = s.answered
	return true
}

// limitHeader ends the stream if the header does not come. ctx ends when it has come.
func (s *sharedStream) limitHeader(ctx context.Context) {
	if sleep(ctx, s.pool.headerTimeout()) != nil {
		return
	}
	began, cause := time.Now(), errNoHeader
	if !s.answersOther(ctx, otherTimeout) {
		cause = errNoAnswer
	} else if sleep(ctx, time.Since(began)) != nil {
		return
	}
	if s.awaitsHeader() {
		s.choice.replace()
		s.cancel(cause)
	}
}

// answersOther reports whether the server of the stream, or a proxy before it, answers another request in time. It
// is a report for no watch, because a server refuses that at once.
func (s *sharedStream) answersOther(ctx context.Context, timeout time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	answer := make(chan error, 1)
	// The source of the token may not return, so the stream does not wait for the request.
	s.pool.running.Go(func() {
		_, err := s.pool.client.reads.Report(withServerChoice(ctx, &serverChoice{only: s.choice.server()}), &fanoutv1.ReportRequest{})
		answer <- err
	})
	select {
	case err := <-answer:
		switch status.Code(err) {
		case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled:
			return false
		}
		return true
	case <-ctx.Done():
		return false
	}
}

// isAsked reports whether the request is on its way.
func (s *sharedStream) isAsked() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

// awaitsHeader reports whether the server was asked, and has not answered.
func (s *sharedStream) awaitsHeader() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked && s.answered.IsZero()
}
