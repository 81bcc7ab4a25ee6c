package subscribe

import (
	"context"
	"errors"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/fanoutd/fanoutd/internal/access"
	"github.com/fanoutd/fanoutd/internal/access/policy"
	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/sendqueue"
	"github.com/fanoutd/fanoutd/internal/server/apierr"
	"github.com/fanoutd/fanoutd/internal/server/frames"
	"github.com/fanoutd/fanoutd/internal/server/quota"
	"github.com/fanoutd/fanoutd/internal/server/rpc"
	"github.com/fanoutd/fanoutd/internal/server/transport"
	"github.com/fanoutd/fanoutd/internal/server/watch"
)

// stream serves one Subscribe RPC. It implements [watch.Stream].
type stream struct {
	service *Service
	grpc    grpc.ServerStream
	call    rpc.Call
	since   time.Time

	// begin sets these.

	requests        grpc.ServerStream // of grpc, reads the first request and limits its memory
	ctx             context.Context   // of the RPC, with the values that the interceptors have added
	ending          context.Context   // of what must not outlast the stream
	end             context.CancelFunc
	number          uint64 // in the registry; 0: not registered
	conn            *frames.Conn
	client          quota.Client
	identity        access.Identity
	pass            *access.Pass
	peer, userAgent string
	queue           *sendqueue.Queue
	releaseQueue    func()

	parsed *parsedRequest // of the latest valid start; nil: there was none. Only the reader uses it

	name  atomic.Pointer[watch.SubscriberName] // nil: none
	out   outbox
	sink  sink
	table table
	waits waits

	endsAll atomic.Bool // EndAll was called

	calls       sync.Mutex  // orders the calls of out; see the comment of the package
	reason      error       // guarded by calls: of EndAll; nil: EndAll was not called
	closed      bool        // guarded by calls: finish has begun
	noRequests  bool        // guarded by calls: the client has closed its side
	waiting     int         // guarded by calls: watches that wait for etcd
	expiryTimer *time.Timer // guarded by calls: credentials
	limitTimer  *time.Timer // guarded by calls: Config.TimeLimit
	cutOffTimer *time.Timer // guarded by calls: for a client that does not read the last messages
}

func newStream(s *Service, rpcStream grpc.ServerStream) *stream {
	st := &stream{service: s, grpc: rpcStream, since: time.Now()}
	st.ctx = context.WithValue(rpcStream.Context(), rpc.CallKey{}, &st.call)
	st.table.init()
	return st
}

// begin registers the stream and sends the response header. The argument reads requests, and its
// context has the values that the interceptors have added.
func (s *stream) begin(requests grpc.ServerStream) error {
	if err := s.register(requests); err != nil {
		return err
	}
	// gRPC would compress on the worker, for which other streams wait.
	err := grpc.SetSendCompressor(s.ctx, encoding.Identity)
	if err == nil {
		err = s.grpc.SendHeader(metadata.MD{})
	}
	if err != nil {
		return status.FromContextError(context.Canceled).Err() // the client has gone
	}
	return nil
}

func (s *stream) register(requests grpc.ServerStream) error {
	s.requests, s.ctx = requests, requests.Context()
	s.ending, s.end = context.WithCancel(s.ctx)
	s.conn, s.client = transport.FramesOf(s.ctx), quota.ClientOf(s.ctx)
	s.identity, s.pass = access.From(s.ctx), rpc.PassOf(s.ctx)
	s.peer, s.userAgent = transport.CallerOf(s.ctx)
	watches := s.service.cfg.Watches
	s.queue, s.releaseQueue = watches.AcquireQueue(s.ctx)
	limit := watch.RandomLimit(s.service.cfg.TimeLimit)
	s.out = s.service.newOutbox(dispatch.StreamConfig{
		Queue: s.queue, Sink: &s.sink, LastBookmark: watch.LastBookmark(s.ctx, s.since, limit),
	})
	s.sink.init(s)
	s.waits.init()
	number, err := watches.Registry.RegisterStream(s)
	if err != nil {
		return err
	}
	s.number = number
	rpc.OnDone(s.ctx, s.out.Abort)
	rpc.OnViolation(s.ctx, s.out.Abort)
	// The stream is registered, so Reexamine finds it after a later change of the credentials.
	if err := s.pass.Check(); err != nil {
		return err
	}
	s.calls.Lock()
	if expires := s.pass.Expires; !expires.IsZero() {
		s.expiryTimer = time.AfterFunc(time.Until(expires), func() { s.EndAll(access.ErrExpired) })
	}
	if limit > 0 {
		s.limitTimer = time.AfterFunc(time.Until(s.since.Add(limit)), func() { s.EndAll(errTimeLimit) })
	}
	s.calls.Unlock()
	return nil
}

// serve sends the responses of the stream until it ends. It returns the error for the client.
func (s *stream) serve() error {
	s.service.readers.Go(s.read)
	err := s.out.Serve()
	if p, ok := errors.AsType[*dispatch.PanicError](err); ok {
		return s.service.cfg.Interceptors.Recovered(s.ctx, p.Value, p.Stack)
	}
	if err != nil {
		if gone := s.ctx.Err(); gone != nil {
			err = gone
		}
		if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
			return status.FromContextError(err).Err()
		}
		return err
	}
	s.calls.Lock()
	defer s.calls.Unlock()
	if errors.Is(s.reason, errTimeLimit) {
		return nil
	}
	return s.reason
}

// finish releases everything that the stream holds, and returns the status for the client.
func (s *stream) finish(err error) error {
	i := s.service.cfg.Interceptors
	watches := 0
	if released := dispatch.Guard(func() error { watches = s.release(); return nil }); released != nil {
		if p, ok := errors.AsType[*dispatch.PanicError](released); ok {
			err = i.Recovered(s.ctx, p.Value, p.Stack)
		}
	}
	result := i.Conclude(s.ctx, &s.call, fullMethod, s.since, err)
	s.service.ended.add(status.Code(result), watches)
	return result
}

// release returns the number of watches that were left.
func (s *stream) release() (watches int) {
	if s.out == nil {
		return 0 // not admitted
	}
	if s.number > 0 {
		defer s.service.cfg.Watches.Registry.UnregisterStream(s.number)
	}
	defer s.releaseQueue()
	s.calls.Lock()
	s.closed = true
	for _, timer := range []*time.Timer{s.expiryTimer, s.limitTimer, s.cutOffTimer} {
		if timer != nil {
			timer.Stop()
		}
	}
	s.calls.Unlock()
	s.end()
	s.waits.close()
	s.sink.slot.close()
	left := s.table.clear()
	s.releaseQuotas(left)
	return len(left)
}

// releaseQuotas gives back what watches have taken that the table no longer has.
func (s *stream) releaseQuotas(gone []*entry) {
	watches := s.service.cfg.Watches
	for _, e := range gone {
		if e.Index > 0 {
			watches.Registry.CountEnded(e.Resource(), e.Reported().Failed())
		}
		if e.releaseSelector != nil {
			e.releaseSelector()
		}
	}
	s.service.cfg.Interceptors.Limits.ReturnWatches(s.client, len(gone))
}

// errTimeLimit ends a stream at its time limit. Clients expect this end, so its status is OK.
var errTimeLimit = errors.New("the stream has reached its time limit")

// EndAll implements [watch.Stream].
func (s *stream) EndAll(reason error) {
	s.calls.Lock()
	defer s.calls.Unlock()
	if s.reason != nil || s.closed {
		return
	}
	s.reason = reason
	if s.waiting > 0 {
		refusal := reason
		if errors.Is(reason, errTimeLimit) {
			refusal = apierr.ErrDraining // the client starts it again on another stream
		}
		for _, e := range s.table.waiting() {
			s.drop(e)
			s.refuse(e.StreamWatch.ID, e.Resource(), refusal)
		}
	}
	s.endsAll.Store(true)
	s.out.EndAll(endingOf(reason))
	if grace := s.service.cfg.Watches.GraceAfter(reason); grace > 0 {
		s.cutOffTimer = time.AfterFunc(grace, func() { rpc.CutOff(s.grpc.Context()) })
	}
}

// endingOf returns how a watch ends that the server ends for a reason.
func endingOf(reason error) dispatch.Ending {
	switch {
	case errors.Is(reason, errTimeLimit):
		return dispatch.Ending{Last: true}
	case apierr.IsDenied(reason):
		return dispatch.Ending{Reason: reason, Deny: true}
	}
	return dispatch.Ending{Reason: reason, Last: true, ResumeAtOnce: errors.Is(reason, apierr.ErrDrainedInTurn)}
}

// Reexamine implements [watch.Stream]. Watches that follow each other and need the same right
// share the question.
func (s *stream) Reexamine() (ended int) {
	if err := s.pass.Check(); err != nil {
		n := s.table.len()
		s.EndAll(err)
		return n
	}
	var question policy.Question
	var denied error
	for e := range s.table.after(0) {
		if q := e.question(); q != question {
			question, denied = q, s.service.cfg.Interceptors.Rights.Examine(s.identity, q)
		}
		if denied != nil {
			e.End(denied)
			ended++
		}
	}
	return ended
}

// Conn implements [watch.Stream].
func (s *stream) Conn() *frames.Conn { return s.conn }

// Len implements [watch.Stream].
func (s *stream) Len() int { return s.table.len() }

// CheckFence implements [watch.Stream].
func (s *stream) CheckFence(now time.Time) { s.sink.CheckFence(now) }

// After implements [watch.Stream].
func (s *stream) After(index uint32) iter.Seq[watch.Watch] {
	return func(yield func(watch.Watch) bool) {
		for e := range s.table.after(index) {
			if !yield(e) {
				return
			}
		}
	}
}

// Find implements [watch.Stream].
func (s *stream) Find(index uint32) watch.Watch {
	if e := s.table.at(index); e != nil {
		return e
	}
	return nil // not a nil *entry
}
