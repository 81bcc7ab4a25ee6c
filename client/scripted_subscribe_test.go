package client_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"sync"
	"testing"

	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// withoutSubscribe is the environment variable of a second test process, whose servers lack Subscribe.
const withoutSubscribe = "FANOUTD_TEST_WITHOUT_SUBSCRIBE"

// lacksSubscribe reports whether this is the test process whose servers lack Subscribe.
func lacksSubscribe() bool { return os.Getenv(withoutSubscribe) != "" }

// refuseSubscribe is a grpc.StreamClientInterceptor. If servers lack Subscribe, it fails each Subscribe call
// with UNIMPLEMENTED.
func refuseSubscribe(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	if lacksSubscribe() && method == fanoutv1.FanoutService_Subscribe_FullMethodName {
		return nil, status.Error(codes.Unimplemented, "no Subscribe")
	}
	return open(ctx, desc, conn, method, opts...)
}

// All tests of this package also pass over Watch.
func TestEverythingWorksWithoutSubscribe(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	if lacksSubscribe() {
		t.Skip("runs once, in the process whose servers have Subscribe")
	}
	t.Parallel()
	// Its own timeout ends the second process.
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.short", "-test.timeout=5m")
	cmd.Env = append(os.Environ(), withoutSubscribe+"=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

type subscribeStream = grpc.BidiStreamingServer[fanoutv1.SubscribeRequest, fanoutv1.SubscribeResponse]

// Subscribe implements fanoutv1.FanoutServiceServer. Each watch of the stream follows a script, as
// those of Watch do.
func (s *scriptedServer) Subscribe(stream subscribeStream) error {
	s.shared.Add(1)
	if s.subscribe != nil {
		return s.subscribe(stream)
	}
	return s.serveSubscribe(stream)
}

func (s *scriptedServer) serveSubscribe(stream subscribeStream) error {
	if err := stream.SendHeader(metadata.MD{}); err != nil {
		return err
	}
	session := &scriptedSession{server: s, stream: stream, watches: map[uint64]*scriptedWatch{}}
	defer session.running.Wait()
	for {
		req, err := stream.Recv()
		if err != nil {
			return err
		}
		session.handle(req)
	}
}

// scriptedSession is a stream of Subscribe.
type scriptedSession struct {
	server  *scriptedServer
	stream  subscribeStream
	running sync.WaitGroup

	mu      sync.Mutex
	watches map[uint64]*scriptedWatch // guarded by mu
}

type scriptedWatch struct {
	name    string
	cancel  context.CancelFunc
	began   bool // it has sent a message
	stopped bool
}

func (s *scriptedSession) handle(req *fanoutv1.SubscribeRequest) {
	switch r := req.GetRequest().(type) {
	case *fanoutv1.SubscribeRequest_Start_:
		script, name := s.server.begin(r.Start.GetRequest())
		ctx, cancel := context.WithCancel(s.stream.Context())
		w := &scriptedWatch{name: name, cancel: cancel}
		id := r.Start.GetWatchId()
		s.mu.Lock()
		_, inUse := s.watches[id]
		s.watches[id] = w
		s.mu.Unlock()
		if inUse {
			panic("the id of a watch is in use")
		}
		s.running.Go(func() {
			defer cancel()
			err := s.server.play(ctx, script, func(m message) error { return s.send(w, id, m) })
			s.end(w, id, err)
		})
	case *fanoutv1.SubscribeRequest_Stop_:
		s.stop(r.Stop.GetWatchId())
	case *fanoutv1.SubscribeRequest_Report_:
		s.report(r.Report)
	}
}

// send sends a message of a watch.
func (s *scriptedSession) send(w *scriptedWatch, id uint64, m message) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.stopped {
		return context.Canceled
	}
	w.began = true
	return s.write(&fanoutv1.SubscribeResponse_Entry{WatchIds: []uint64{id}, Content: &fanoutv1.SubscribeResponse_Entry_Response{Response: m}})
}

// write sends a response. The caller holds mu.
func (s *scriptedSession) write(e *fanoutv1.SubscribeResponse_Entry) error {
	return s.stream.Send(&fanoutv1.SubscribeResponse{Entries: []*fanoutv1.SubscribeResponse_Entry{e}})
}

// end ends a watch at the end of its script.
func (s *scriptedSession) end(w *scriptedWatch, id uint64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.stopped || s.stream.Context().Err() != nil {
		return
	}
	e := &fanoutv1.SubscribeResponse_Entry{WatchIds: []uint64{id}}
	reason := &statuspb.Status{}
	if !errors.Is(err, errOK) {
		reason = status.Convert(err).Proto()
	}
	if e.Content = (&fanoutv1.SubscribeResponse_Entry_Ended{Ended: reason}); !w.began && !errors.Is(err, errOK) {
		e.Content = &fanoutv1.SubscribeResponse_Entry_Refused{Refused: reason}
	}
	delete(s.watches, id)
	_ = s.write(e)
}

// stop stops a watch.
func (s *scriptedSession) stop(id uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.watches[id]; w != nil {
		delete(s.watches, id)
		w.stopped = true
		w.cancel()
		_ = s.write(&fanoutv1.SubscribeResponse_Entry{WatchIds: []uint64{id}, Content: &fanoutv1.SubscribeResponse_Entry_Ended{Ended: &statuspb.Status{}}})
	}
}

// report passes a report on, as if it had come to the method Report.
func (s *scriptedSession) report(r *fanoutv1.SubscribeRequest_Report) {
	s.mu.Lock()
	w := s.watches[r.GetWatchId()]
	s.mu.Unlock()
	if w != nil && s.server.reports != nil {
		_ = s.server.reports(&fanoutv1.ReportRequest{Watch: w.name, Applied: r.GetApplied(), Error: r.GetError(), Attempted: r.GetAttempted(), FailedKeys: r.GetFailedKeys()})
	}
}
