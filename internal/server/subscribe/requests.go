package subscribe

import (
	"errors"
	"io"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/server/apierr"
	"github.com/fanoutd/fanoutd/internal/server/registry"
	"github.com/fanoutd/fanoutd/internal/server/request"
	"github.com/fanoutd/fanoutd/internal/server/rpc"
	"github.com/fanoutd/fanoutd/internal/work"
)

// maxAnswers is the number of answers that may wait to be sent before the server reads another
// request. They take about 16 KiB.
const maxAnswers = 64

// read handles the requests of the stream until the client closes its side, or the stream ends.
func (s *stream) read() {
	if err := work.Guard(s.readAll); err != nil {
		s.out.Abort(err)
		return
	}
	s.calls.Lock()
	defer s.calls.Unlock()
	s.noRequests = true
	s.finishIfIdle()
}

// finishIfIdle is called with calls held. It lets the stream end with its last watch if the client
// starts no more.
func (s *stream) finishIfIdle() {
	if s.noRequests && s.waiting == 0 && s.reason == nil && !s.closed {
		s.out.Finish()
	}
}

func (s *stream) readAll() error {
	if err := s.out.AwaitAnswers(s.ending, maxAnswers); err != nil {
		return err
	}
	first := &fanoutv1.SubscribeRequest{}
	if err := s.requests.RecvMsg(first); err != nil {
		return ignoreEOF(err)
	}
	if err := s.handle(first, true); err != nil {
		return err
	}
	requests, later := rpc.Receiving{ServerStream: s.grpc}, &decoder{}
	for {
		if err := s.out.AwaitAnswers(s.ending, maxAnswers); err != nil {
			return err
		}
		if err := requests.RecvMsg(later); err != nil {
			return ignoreEOF(err)
		}
		if err := s.handle(later.request, false); err != nil {
			return err
		}
	}
}

// ignoreEOF returns nil if the client has closed its side.
func ignoreEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// handle handles a request. An error ends the stream.
func (s *stream) handle(req *fanoutv1.SubscribeRequest, first bool) error {
	switch r := req.GetRequest().(type) {
	case *fanoutv1.SubscribeRequest_Subscriber:
		return s.setSubscriber(r.Subscriber, first)
	case *fanoutv1.SubscribeRequest_Start_:
		return s.start(r.Start)
	case *fanoutv1.SubscribeRequest_Stop_:
		s.stop(r.Stop.GetWatchId())
	case *fanoutv1.SubscribeRequest_Report_:
		s.report(r.Report)
	default:
		return apierr.InvalidError{{Field: "request", Description: "must be set to a kind of request that the server knows"}}
	}
	return nil
}

func (s *stream) setSubscriber(named *fanoutv1.Subscriber, first bool) error {
	if !first {
		return apierr.InvalidError{{Field: "subscriber", Description: "must be the first request of the stream"}}
	}
	if err := request.CheckSubscriber(named); err != nil {
		return err
	}
	s.caller.SetName(named)
	return nil
}

// start starts a watch, or answers that it is refused. An error ends the stream.
func (s *stream) start(req *fanoutv1.SubscribeRequest_Start) error {
	if err := s.caller.AwaitTurn(s.ending); err != nil {
		return err
	}
	p, err := s.admit(req)
	if err != nil {
		s.calls.Lock()
		defer s.calls.Unlock()
		s.refuse(req.GetWatchId(), req.GetRequest().GetResource(), err)
		return nil
	}
	return s.awaitStore(p)
}

// admit checks whether a watch may start, and adds it to the table.
func (s *stream) admit(req *fanoutv1.SubscribeRequest_Start) (*waitingStart, error) {
	if s.table.find(req.GetWatchId()) != nil {
		return nil, apierr.ErrWatchIDInUse
	}
	w := &watch{stream: s}
	w.StreamWatch.ID = req.GetWatchId()
	w.SetBegan(time.Now())
	admitted, err := s.service.registry.AdmitWatch(s.ctx, w, req.GetRequest())
	if err != nil {
		return nil, err
	}
	s.sink.slot.Expect(admitted.Options.BookmarkInterval)
	s.calls.Lock()
	defer s.calls.Unlock()
	s.table.add(w)
	s.waiting++
	if s.reason != nil || s.closed {
		s.drop(w) // the end of the stream answers the start
	}
	return &waitingStart{w, &admitted.Watch}, nil
}

// refuse answers a start that is refused. It is called with calls held, so that the answer comes
// before those to later requests with the same id.
func (s *stream) refuse(id uint64, resource string, err error) {
	i := s.service.registry.Interceptors
	result := i.Finish(s.ctx, err)
	s.service.ended.add(status.Code(result), 1)
	i.Record(s.ctx, &rpc.Call{Identity: *s.caller.Identity, Resource: apierr.Clip(resource, apierr.MaxEchoBytes)}, fullMethod, result)
	if !s.endsAll.Load() && !s.closed {
		s.out.Refuse(id, result)
	}
}

// drop removes a watch before it is started. It is called with calls held.
func (s *stream) drop(w *watch) {
	s.waiting--
	s.table.free(w)
	s.service.registry.End(w)
}

// errStopped answers the start of a watch that was stopped while it waited for etcd. The sink sends
// it as the end of the watch, with status OK.
var errStopped = errors.New("the watch was stopped before it began")

// stop stops a watch. It does nothing if no watch has the id.
func (s *stream) stop(id uint64) {
	w := s.table.find(id)
	if w == nil {
		return
	}
	s.calls.Lock()
	switch stage := registry.StageOf(w); {
	case s.reason != nil || s.closed:
	case stage == registry.Admitted:
		s.drop(w)
		s.service.ended.add(codes.OK, 1)
		s.out.Refuse(id, errStopped)
		s.finishIfIdle()
	case stage == registry.Begun:
		s.table.free(w)
		s.out.End(&w.StreamWatch, dispatch.Ending{Deny: true})
	}
	s.calls.Unlock()
	if conn := s.caller.Conn; conn != nil {
		conn.AbandonWatch(s.caller.Identity.Name, time.Since(w.Began()))
	}
}
