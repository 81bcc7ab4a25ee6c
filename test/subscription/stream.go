package subscription

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/test/check"
)

// Stream is a Subscribe stream. A goroutine reads it all the time, unless it is paused, so a watch
// that nobody reads delays no other watch.
type Stream struct {
	rpc     fanoutv1.FanoutService_SubscribeClient
	cancel  context.CancelFunc
	reading sync.WaitGroup
	stops   sync.WaitGroup // goroutines that send stops

	// sending orders the requests. It may be held while gRPC waits for the server.
	sending sync.Mutex

	done chan struct{} // closed when the stream has ended

	mu         sync.Mutex
	starts     []*Watch            // guarded by mu: all starts, in order
	unanswered map[uint64][]*Watch // guarded by mu: starts that have no refused and no ended yet, the oldest first
	free       []uint64            // guarded by mu: ids that were used and are not in use
	ids        uint64              // guarded by mu: the highest id so far
	responses  []received          // guarded by mu
	fault      error               // guarded by mu: what a client cannot understand
	err        error               // guarded by mu: how the stream ended, io.EOF if the status was OK; nil: it has not
	closed     bool                // guarded by mu: Close was called
	pause      chan struct{}       // guarded by mu: closed at the end of the pause; nil: there is none
	paused     []check.Span        // guarded by mu: the last one has no end while the stream is paused
}

// received is a response, and when it came.
type received struct {
	response *fanoutv1.SubscribeResponse
	at       time.Time
}

// Open opens a stream, and returns when the server has accepted it. The stream may outlast ctx. The
// caller closes it.
func Open(ctx context.Context, client fanoutv1.FanoutServiceClient) (*Stream, error) {
	lasting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	opened := context.AfterFunc(ctx, cancel)
	rpc, err := client.Subscribe(lasting)
	if err == nil {
		if header, _ := rpc.Header(); header == nil {
			_, err = rpc.Recv() // the stream has ended before the server accepted it
		}
	}
	if !opened() {
		err = status.FromContextError(ctx.Err()).Err()
	}
	if err != nil {
		cancel()
		return nil, err
	}
	s := &Stream{rpc: rpc, cancel: cancel, done: make(chan struct{}), unanswered: map[uint64][]*Watch{}}
	s.reading.Go(s.read)
	return s, nil
}

// Close ends the stream, and waits until it has ended.
func (s *Stream) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.Resume()
	s.cancel()
	s.reading.Wait()
	s.stops.Wait()
}

// Pause makes the stream stop reading. It may still read one response.
func (s *Stream) Pause() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pause == nil && !s.closed {
		s.pause = make(chan struct{})
		s.paused = append(s.paused, check.Span{From: time.Now()})
	}
}

// Resume makes the stream read again.
func (s *Stream) Resume() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pause != nil {
		close(s.pause)
		s.pause = nil
		s.paused[len(s.paused)-1].To = time.Now()
	}
}

// Err returns how the stream has ended: io.EOF means OK. It returns nil if the stream goes on.
func (s *Stream) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

func (s *Stream) read() {
	for {
		s.mu.Lock()
		pause := s.pause
		s.mu.Unlock()
		if pause != nil {
			<-pause
			continue
		}
		response, err := s.rpc.Recv()
		s.mu.Lock()
		if err == nil {
			s.receive(response)
			err = s.fault
		}
		s.err = err
		s.mu.Unlock()
		if err != nil {
			close(s.done)
			s.cancel()
			return
		}
	}
}

// receive gives the entries of a response to their watches. It is called with mu held.
func (s *Stream) receive(response *fanoutv1.SubscribeResponse) {
	s.responses = append(s.responses, received{response, time.Now()})
	for _, e := range response.GetEntries() {
		for _, id := range e.GetWatchIds() {
			w := s.startOf(id, e)
			if w == nil {
				s.fault = fmt.Errorf("got %v for the id %d, which no watch has", e, id)
				return
			}
			w.entries = append(w.entries, e)
			select {
			case w.more <- struct{}{}:
			default:
			}
			if e.GetResponse() == nil {
				s.answered(w)
			}
		}
	}
}

// startOf returns the start that an entry belongs to: the oldest with the id that has no answer. A
// refusal because the id is in use belongs to the next one. It is called with mu held.
func (s *Stream) startOf(id uint64, e *fanoutv1.SubscribeResponse_Entry) *Watch {
	n := 0
	if e.GetRefused() != nil && reasonOf(status.ErrorProto(e.GetRefused())) == check.StatusIDInUse {
		n = 1
	}
	if waiting := s.unanswered[id]; n < len(waiting) {
		return waiting[n]
	}
	return nil
}

// answered notes that a start got its refused or ended. It is called with mu held.
func (s *Stream) answered(w *Watch) {
	s.unanswered[w.id] = slices.DeleteFunc(s.unanswered[w.id], func(other *Watch) bool { return other == w })
	w.over = true
	if !w.stopped {
		s.release(w)
	}
}

// release lets other watches use the id of a watch, unless an intruder may have it. It is called
// with mu held.
func (s *Stream) release(w *Watch) {
	if !w.intruder && !slices.ContainsFunc(s.unanswered[w.id], func(other *Watch) bool { return other.intruder }) {
		s.free = append(s.free, w.id)
	}
}

// start sends a start. An intruder asks for an id that is in use.
func (s *Stream) start(ctx context.Context, req *fanoutv1.WatchRequest, intruder bool) (*Watch, error) {
	s.sending.Lock()
	defer s.sending.Unlock()
	s.mu.Lock()
	if s.err != nil {
		s.mu.Unlock()
		return nil, s.endOf(s.err)
	}
	w := &Watch{stream: s, ctx: ctx, request: req, intruder: intruder, opened: time.Now(), more: make(chan struct{}, 1)}
	if n := len(s.free); intruder {
		if w.id = s.idInUse(); w.id == 0 {
			s.mu.Unlock()
			return nil, errors.New("no id is in use")
		}
	} else if n > 0 {
		// The id that became free last: its old watch has often not ended.
		w.id, s.free = s.free[n-1], s.free[:n-1]
	} else {
		s.ids++
		w.id = s.ids
	}
	s.starts = append(s.starts, w)
	s.unanswered[w.id] = append(s.unanswered[w.id], w)
	s.mu.Unlock()
	s.send(&fanoutv1.SubscribeRequest{Request: &fanoutv1.SubscribeRequest_Start_{
		Start: &fanoutv1.SubscribeRequest_Start{WatchId: w.id, Request: req},
	}})
	return w, nil
}

// idInUse returns the id of the latest watch that goes on, or 0. It is called with mu held.
func (s *Stream) idInUse() uint64 {
	for _, w := range slices.Backward(s.starts) {
		if !w.over && !w.stopped && !w.intruder {
			return w.id
		}
	}
	return 0
}

// stop stops a watch, unless it has ended. Its id is free from now on.
func (s *Stream) stop(w *Watch) {
	s.sending.Lock()
	defer s.sending.Unlock()
	s.mu.Lock()
	if w.over || w.stopped || s.err != nil {
		s.mu.Unlock()
		return
	}
	w.stopped = true
	s.release(w)
	s.mu.Unlock()
	s.send(&fanoutv1.SubscribeRequest{Request: &fanoutv1.SubscribeRequest_Stop_{Stop: &fanoutv1.SubscribeRequest_Stop{WatchId: w.id}}})
}

// send sends a request. It is called with sending held. If the stream has ended, the reader gets
// to know the reason.
func (s *Stream) send(req *fanoutv1.SubscribeRequest) { _ = s.rpc.Send(req) }

// endOf returns what a watch returns if its stream ends with an error.
func (s *Stream) endOf(err error) error {
	if errors.Is(err, io.EOF) {
		// The watches have ended before, or have never begun.
		return status.Error(codes.Unavailable, "the stream has ended with OK")
	}
	return err
}
