package client

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// sharedStream is a stream of the method Subscribe, which carries many watches. One goroutine reads
// it and never waits for a watch. Another one writes the requests; each watch has at most a start, a
// stop and a report to be written. The stream ends with its last watch.
type sharedStream struct {
	pool    *streamPool
	choice  *serverChoice
	onlyTry bool     // see streamPool.try
	opening *opening // that has opened the stream; nil: a watch has
	ctx     context.Context
	cancel  context.CancelCauseFunc
	opened  time.Time
	written chan struct{} // wakes the writer; buffers one signal

	buffered atomic.Int64 // bytes of the messages that wait for the callers of all watches

	mu       sync.Mutex
	watches  []*streamWatch // by id; nil: the id is free; guarded by mu
	free     []uint64       // ids that were used before; guarded by mu
	active   int            // watches that were neither stopped nor ended, and one while watches wait; guarded by mu
	requests []*streamWatch // with a start or a stop to be written; guarded by mu
	reports  reportQueue    // guarded by mu
	asked    bool           // the server was asked; guarded by mu
	answered time.Time      // when the header of the response arrived; zero: it has not; guarded by mu
	received signOfLife     // the latest response; guarded by mu
	begun    signOfLife     // the header, or the latest answer to a start; guarded by mu
	closing  bool           // no further watch may join; guarded by mu
	atOnce   bool           // the server said that the client may resume at once; guarded by mu
}

// lostStream is why watches have lost their stream together.
type lostStream struct {
	err     error
	watches int
	logged  atomic.Bool
	pooled  bool          // the next stream waits for all watches, so they need not
	wait    time.Duration // of the next stream, if pooled
}

func (l *lostStream) Error() string { return l.err.Error() }
func (l *lostStream) Unwrap() error { return l.err }

// Causes of the end of a stream that are not failures.
var (
	errNoWatches = errors.New("the stream has no watches any more")
	errTried     = errors.New("the server supports Subscribe")
)

func newSharedStream(p *streamPool, avoid string, onlyTry bool) *sharedStream {
	now := time.Now()
	s := &sharedStream{
		pool: p, choice: &serverChoice{avoid: avoid}, onlyTry: onlyTry, opened: now, received: signOfLife{at: now},
		written: make(chan struct{}, 1),
	}
	s.ctx, s.cancel = context.WithCancelCause(p.client.open)
	return s
}

// suits reports whether a watch that must avoid a server may join.
func (s *sharedStream) suits(avoid string) bool {
	if avoid == "" || avoid == s.choice.avoid {
		return true
	}
	server := s.choice.server()
	return server != "" && server != avoid
}

// add adds a watch, unless the stream is about to end.
func (s *sharedStream) add(req *fanoutv1.WatchRequest) *streamWatch {
	w := newStreamWatch(s, req)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return nil
	}
	if n := len(s.free); n > 0 {
		w.id, s.free = s.free[n-1], s.free[:n-1]
		s.watches[w.id] = w
	} else {
		w.id = uint64(len(s.watches))
		s.watches = append(s.watches, w)
	}
	s.active++
	s.request(w)
	return w
}

// request makes the writer write a request of a watch. The caller holds mu.
func (s *sharedStream) request(w *streamWatch) {
	s.requests = append(s.requests, w)
	s.wakeWriter()
}

func (s *sharedStream) wakeWriter() {
	select {
	case s.written <- struct{}{}:
	default:
	}
}

// stop ends a watch, unless it has ended. The caller holds mu.
func (s *sharedStream) stop(w *streamWatch) {
	if w.gone {
		return
	}
	if w.start != nil {
		w.start, w.unwritten = nil, true
		s.release(w)
	} else {
		s.request(w) // the id stays in use until the server has ended the watch
	}
	s.forget(w)
}

// forget notes that the watch gets no further messages. The caller holds mu.
func (s *sharedStream) forget(w *streamWatch) {
	w.gone = true
	s.leave()
}

// leave ends the stream after its last watch. The caller holds mu.
func (s *sharedStream) leave() {
	if s.active--; s.active == 0 {
		s.closing = true
		s.cancel(errNoWatches)
	}
}

// release makes the id of a watch free. The caller holds mu.
func (s *sharedStream) release(w *streamWatch) {
	s.watches[w.id] = nil
	s.free = append(s.free, w.id)
}

// run is the goroutine that reads the stream.
func (s *sharedStream) run() { s.ended(s.serve()) }

// ended handles the end of the stream. It reports whether its opening must open another one.
func (s *sharedStream) ended(err error) (again bool) {
	s.cancel(nil)
	lost := &lostStream{err: err}
	s.mu.Lock()
	answered, atOnce := !s.answered.IsZero(), s.atOnce
	s.mu.Unlock()
	switch {
	case s.onlyTry, errors.Is(err, errNoWatches), s.pool.client.open.Err() != nil:
	case errors.Is(err, io.EOF):
	case !answered && s.pool.subscribeFailed(err):
		lost.err = errUnable
	default:
		lasted := time.Duration(0)
		if answered {
			lasted = time.Since(s.opened)
		}
		lost.wait = s.pool.streamFailed(err, lasted, atOnce)
		// A server that drains spreads its watches.
		lost.pooled = isTemporary(err) && !(answered && (atOnce || errors.Is(err, ErrDraining)))
	}
	// Watches that come from now on must not open another stream before the pool knows the reason.
	s.pool.remove(s)
	s.fail(lost)
	return s.opening != nil && !answered && s.opening.attemptFailed(s.choice.server(), lost)
}

// serve opens the stream and handles its responses until it ends.
func (s *sharedStream) serve() error {
	// The server does not accept compressed requests.
	stream, err := s.pool.client.reads.Subscribe(withServerChoice(s.ctx, s.choice), grpc.UseCompressor(encoding.Identity))
	if err != nil {
		err = s.causeOf(err)
		s.cancel(nil)
		return err
	}
	var beside sync.WaitGroup
	defer beside.Wait()
	defer s.cancel(nil)
	if s.awaitHeader(stream, &beside) {
		s.pool.answered(s)
		if s.onlyTry {
			return errTried
		}
	}
	for arrived := newArrivals(); ; {
		called := time.Now()
		resp, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return io.EOF
		} else if err != nil {
			return s.causeOf(err)
		}
		s.handle(resp, arrived.received(called, time.Now()))
	}
}

// causeOf returns why the stream has ended with an error. A later cancellation is not the cause.
func (s *sharedStream) causeOf(err error) error {
	if cause := context.Cause(s.ctx); s.ctx.Err() != nil {
		return cause
	}
	return errorOf(err)
}

// ending is a watch that a response ends.
type ending struct {
	watch *streamWatch
	lost  *lostStream
}

// handle passes a response on to the watches. It did not arrive before the given time.
func (s *sharedStream) handle(resp *fanoutv1.SubscribeResponse, arrived time.Time) {
	if resumesAtOnce(resp) {
		s.choice.replace() // may wait until gRPC has closed the old connection, and call hooks of the user
	}
	var endings []ending
	var lost *lostStream // of the latest watch that has ended
	s.mu.Lock()
	s.received.at = time.Now()
	for _, e := range resp.GetEntries() {
		switch c := e.GetContent().(type) {
		case *fanoutv1.SubscribeResponse_Entry_Response:
			s.deliver(e.GetWatchIds(), c.Response, arrived)
			continue
		case *fanoutv1.SubscribeResponse_Entry_Refused:
			lost = lost.sameOrNew(endOf(c.Refused))
		case *fanoutv1.SubscribeResponse_Entry_Ended:
			lost = lost.sameOrNew(endOf(c.Ended))
		default:
			continue // for clients that ask for it
		}
		if errors.Is(lost.err, ErrDraining) {
			s.closing = true
		}
		for _, id := range e.GetWatchIds() {
			if w := s.find(id); w != nil {
				s.noteAnswer(w)
				s.release(w)
				if !w.gone {
					s.forget(w)
					lost.watches++
					endings = append(endings, ending{w, lost})
				}
			}
		}
	}
	s.mu.Unlock()
	for _, e := range endings {
		e.watch.end(e.lost)
	}
}

// resumesAtOnce reports whether the server says that the client may resume at once.
func resumesAtOnce(resp *fanoutv1.SubscribeResponse) bool {
	return slices.ContainsFunc(resp.GetEntries(), func(e *fanoutv1.SubscribeResponse_Entry) bool { return e.GetResponse().GetResumeAtOnce() })
}

// find returns the watch with an id, or nil. The caller holds mu.
func (s *sharedStream) find(id uint64) *streamWatch {
	if id >= uint64(len(s.watches)) {
		return nil
	}
	return s.watches[id]
}

// noteAnswer notes that the server has answered the start of a watch. The caller holds mu.
func (s *sharedStream) noteAnswer(w *streamWatch) {
	if !w.begun {
		w.begun, s.begun.at = true, s.received.at
	}
}

// deliver passes a message on to watches. It stops a watch whose buffer is full. The caller holds mu.
func (s *sharedStream) deliver(ids []uint64, resp *fanoutv1.WatchResponse, arrived time.Time) {
	m := &message{WatchResponse: resp, arrived: arrived, size: sizeOf(resp), shared: len(ids) > 1}
	if resp.GetKind() == fanoutv1.WatchResponse_KIND_DRAINING {
		s.closing = true
		s.atOnce = s.atOnce || resp.GetResumeAtOnce()
	}
	for _, id := range ids {
		w := s.find(id)
		if w == nil || w.gone || w.drained {
			continue
		}
		s.noteAnswer(w)
		w.drained = resp.GetKind() == fanoutv1.WatchResponse_KIND_DRAINING
		if !w.put(m) {
			s.stop(w)
		}
	}
}

// fail ends all watches with the same error.
func (s *sharedStream) fail(lost *lostStream) {
	s.mu.Lock()
	var all []*streamWatch
	for _, w := range s.watches {
		if w != nil && !w.gone {
			w.gone = true
			lost.watches++
			all = append(all, w)
		}
	}
	s.closing, s.active, s.watches, s.requests, s.reports = true, 0, nil, nil, nil
	s.mu.Unlock()
	for _, w := range all {
		w.end(lost)
	}
}

// sameOrNew returns l if it has the same error, or else a new one.
func (l *lostStream) sameOrNew(err error) *lostStream {
	if l != nil && l.err.Error() == err.Error() {
		return l
	}
	return &lostStream{err: err}
}
