package subscribe

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/server/apierr"
	"github.com/fanoutd/fanoutd/internal/server/registry"
	"github.com/fanoutd/fanoutd/internal/server/rpc"
	"github.com/fanoutd/fanoutd/internal/work"
)

// stream serves one Subscribe RPC. It implements [registry.RPC].
type stream struct {
	service *Service
	grpc    grpc.ServerStream
	since   time.Time
	last    time.Time // see dispatch.StreamConfig.LastBookmark

	// accept sets these.

	requests grpc.ServerStream // of grpc, reads the first request and limits its memory
	ctx      context.Context   // of the RPC, with the values that the interceptors have added
	ending   context.Context   // of what must not outlast the stream
	end      context.CancelFunc
	caller   registry.Caller
	worker   int // that serves the stream

	out   *dispatch.Stream
	sink  sink
	table table
	waits waits

	endsAll atomic.Bool // EndAll was called

	calls      sync.Mutex // orders the calls of out; see the comment of the package
	reason     error      // guarded by calls: of EndAll; nil: EndAll was not called
	closed     bool       // guarded by calls: finish has begun
	noRequests bool       // guarded by calls: the client has closed its side
	waiting    int        // guarded by calls: watches that wait for etcd
}

func newStream(s *Service, rpcStream grpc.ServerStream) *stream {
	st := &stream{service: s, grpc: rpcStream, ctx: rpcStream.Context(), since: time.Now()}
	st.table.init()
	return st
}

// accept registers the stream and sends the response header. The argument reads requests, and its
// context has the values that the interceptors have added.
func (s *stream) accept(requests grpc.ServerStream) error {
	if err := s.register(requests); err != nil {
		return err
	}
	return rpc.Accept(s.ctx, s.grpc, metadata.MD{})
}

func (s *stream) register(requests grpc.ServerStream) error {
	s.requests, s.ctx = requests, requests.Context()
	s.ending, s.end = context.WithCancel(s.ctx)
	s.caller.Init(s.ctx, true)
	watches := s.service.registry
	queue := watches.Queues.Of(s.caller.Conn)
	s.worker = queue.Worker()
	limit := watches.TimeLimit()
	s.last = registry.LastBookmark(s.ctx, s.since, limit)
	s.out = dispatch.NewStream(dispatch.StreamConfig{Queue: queue, Sink: &s.sink, Order: rpc.StreamID(s.ctx), LastBookmark: s.last})
	s.sink.init(s)
	s.waits.init()
	if err := watches.Register(s); err != nil {
		return err
	}
	rpc.OnDone(s.ctx, s.out.Abort)
	rpc.OnViolation(s.ctx, s.out.Abort)
	// The stream is registered, so Reexamine finds it after a later change of the credentials.
	if err := s.caller.Pass.Check(); err != nil {
		return err
	}
	if limit > 0 {
		watches.EndAt(s, s.since.Add(limit))
	}
	return nil
}

// serve sends the responses of the stream until it ends. It returns the error for the client.
func (s *stream) serve() error {
	s.service.readers.Go(s.read)
	err := s.out.Serve()
	if _, panicked := errors.AsType[*work.PanicError](err); panicked {
		return err
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
	if errors.Is(s.reason, registry.ErrTimeLimit) {
		return nil
	}
	return s.reason
}

// finish releases everything that the stream holds, and returns the status for the client.
func (s *stream) finish(err error) error {
	watches := 0
	if panicked := work.Guard(func() error { watches = s.release(); return nil }); panicked != nil {
		err = panicked
	}
	result := s.service.registry.Interceptors.Conclude(s.ctx, fullMethod, s.since, err)
	s.service.ended.add(status.Code(result), watches)
	return result
}

// release returns the number of watches that were left.
func (s *stream) release() (watches int) {
	if s.out == nil {
		return 0 // not admitted
	}
	defer s.service.registry.Unregister(s)
	s.calls.Lock()
	s.closed = true
	s.calls.Unlock()
	s.end()
	s.waits.close()
	s.sink.slot.Close()
	left := s.table.clear()
	for _, e := range left {
		s.service.registry.End(e)
	}
	return len(left)
}

// EndAll implements [registry.RPC].
func (s *stream) EndAll(reason error) {
	s.calls.Lock()
	defer s.calls.Unlock()
	if s.reason != nil || s.closed {
		return
	}
	s.reason = reason
	if s.waiting > 0 {
		refusal := reason
		if errors.Is(reason, registry.ErrTimeLimit) {
			refusal = apierr.ErrDraining // the client starts it again on another stream
		}
		for _, e := range s.table.waiting() {
			s.drop(e)
			s.refuse(e.StreamWatch.ID, e.Resource(), refusal)
		}
	}
	s.endsAll.Store(true)
	s.out.EndAll(endingOf(reason))
	s.service.registry.CutOffAfter(s, reason, s.grpc)
}

// endingOf returns how a watch ends that the server ends for a reason.
func endingOf(reason error) dispatch.Ending {
	switch {
	case errors.Is(reason, registry.ErrTimeLimit):
		return dispatch.Ending{Last: true}
	case apierr.IsDenied(reason):
		return dispatch.Ending{Reason: reason, Deny: true}
	}
	return dispatch.Ending{Reason: reason, Last: true, ResumeAtOnce: errors.Is(reason, apierr.ErrDrainedInTurn)}
}

// Caller implements [registry.RPC].
func (s *stream) Caller() *registry.Caller { return &s.caller }

// Len implements [registry.RPC].
func (s *stream) Len() int { return s.table.len() }

// CheckFence implements [registry.RPC].
func (s *stream) CheckFence(now time.Time) { s.sink.CheckFence(now) }

// Each implements [registry.RPC].
func (s *stream) Each(from uint32, yield func(registry.Watch) bool) bool {
	return s.table.each(from, func(e *watch) bool { return yield(e) })
}

// Find implements [registry.RPC].
func (s *stream) Find(index uint32) registry.Watch {
	if e := s.table.at(index); e != nil {
		return e
	}
	return nil // not a nil *watch
}
