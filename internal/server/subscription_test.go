package server_test

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"

	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// subscription is the client's end of a Subscribe. A goroutine reads the stream all the time.
type subscription struct {
	t       *testing.T
	patient context.Context // ends when the test has waited too long
	stream  fanoutv1.FanoutService_SubscribeClient

	mu        sync.Mutex
	responses []*fanoutv1.SubscribeResponse // guarded by mu
	err       error                         // guarded by mu; how the stream ended, io.EOF if the status was OK
	changed   chan struct{}                 // guarded by mu; closed and replaced for every response
	watches   map[uint64]*subscribedWatch   // guarded by mu: the latest watch with each id
	next      uint64                        // guarded by mu: id of the next watch of Watch
}

// subscribe opens a stream and waits for its header.
func (in *instance) subscribe(ctx context.Context, t *testing.T) *subscription {
	t.Helper()
	patient := within(t)
	ctx, cancel := context.WithCancel(ctx)
	stream, err := in.reads.Subscribe(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Header(); err != nil {
		t.Fatal(err)
	}
	s := &subscription{t: t, patient: patient, stream: stream, changed: make(chan struct{}), watches: map[uint64]*subscribedWatch{}}
	var reading sync.WaitGroup
	reading.Go(s.read)
	t.Cleanup(func() {
		cancel()
		reading.Wait()
	})
	return s
}

func (s *subscription) read() {
	for {
		resp, err := s.stream.Recv()
		s.mu.Lock()
		if s.err = err; err == nil {
			s.responses = append(s.responses, resp)
			for _, e := range resp.GetEntries() {
				s.distribute(e)
			}
		}
		close(s.changed)
		s.changed = make(chan struct{})
		s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// distribute is called with mu held.
func (s *subscription) distribute(e *fanoutv1.SubscribeResponse_Entry) {
	for _, id := range e.GetWatchIds() {
		w := s.watches[id]
		for w != nil && w.older != nil && !w.older.over() {
			w = w.older // the oldest watch with the id that has not ended
		}
		if w == nil || w.over() && e.GetRefused() == nil {
			s.t.Errorf("got entry %v for watch %d, which does not exist", e, id)
			continue
		}
		w.entries = append(w.entries, e)
	}
}

// await waits until the condition, which is called with mu held, is true.
func (s *subscription) await(what string, is func() bool) {
	s.t.Helper()
	for {
		s.mu.Lock()
		ok, err, changed := is(), s.err, s.changed
		s.mu.Unlock()
		switch {
		case ok:
			return
		case err != nil:
			s.t.Fatalf("waiting until %s: the stream ended with %v", what, err)
		}
		select {
		case <-changed:
		case <-s.patient.Done():
			s.t.Fatalf("timed out waiting until %s", what)
		}
	}
}

// end waits until the stream ends, and returns how: io.EOF means OK.
func (s *subscription) end() (err error) {
	s.t.Helper()
	s.await("the stream ends", func() bool {
		err = s.err
		return err != nil
	})
	return err
}

// received returns the responses so far.
func (s *subscription) received() []*fanoutv1.SubscribeResponse {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.responses)
}

func (s *subscription) send(req *fanoutv1.SubscribeRequest) {
	s.t.Helper()
	if err := s.stream.Send(req); err != nil && err != io.EOF {
		s.t.Fatal(err)
	}
}

func startRequest(id uint64, req *fanoutv1.WatchRequest) *fanoutv1.SubscribeRequest {
	return &fanoutv1.SubscribeRequest{Request: &fanoutv1.SubscribeRequest_Start_{Start: &fanoutv1.SubscribeRequest_Start{WatchId: id, Request: req}}}
}

func stopRequest(id uint64) *fanoutv1.SubscribeRequest {
	return &fanoutv1.SubscribeRequest{Request: &fanoutv1.SubscribeRequest_Stop_{Stop: &fanoutv1.SubscribeRequest_Stop{WatchId: id}}}
}

// start starts a watch. If the id is that of an earlier watch, the messages of that watch must end
// first.
func (s *subscription) start(id uint64, req *fanoutv1.WatchRequest) *watch {
	s.t.Helper()
	w := &subscribedWatch{s: s, id: id}
	s.mu.Lock()
	w.older = s.watches[id]
	s.watches[id] = w
	s.mu.Unlock()
	s.send(startRequest(id, req))
	return &watch{s.t, w}
}

func (s *subscription) stop(id uint64) {
	s.t.Helper()
	s.send(stopRequest(id))
}

// report reports for a watch.
func (s *subscription) report(id uint64, applied *fanoutv1.Position, failed *rpcstatus.Status) {
	s.t.Helper()
	s.send(&fanoutv1.SubscribeRequest{Request: &fanoutv1.SubscribeRequest_Report_{
		Report: &fanoutv1.SubscribeRequest_Report{WatchId: id, Applied: applied, Error: failed},
	}})
}

// subscribedWatch is a watch of a subscription. It has the methods of a stream of Watch, so the
// tests of Watch can use it.
type subscribedWatch struct {
	fanoutv1.FanoutService_WatchClient // nil
	s                                  *subscription
	id                                 uint64
	older                              *subscribedWatch // had the same id

	entries []*fanoutv1.SubscribeResponse_Entry // guarded by s.mu
	read    int                                 // guarded by s.mu: entries that Recv has returned
}

// over reports whether the watch has ended or was refused. It is called with s.mu held.
func (w *subscribedWatch) over() bool {
	n := len(w.entries)
	return n > 0 && w.entries[n-1].GetResponse() == nil
}

// Header waits for the first message of the watch: from then on it is registered.
func (w *subscribedWatch) Header() (metadata.MD, error) {
	w.s.await("the watch begins", func() bool { return len(w.entries) > 0 })
	return nil, nil
}

// Recv returns the next message, or how the watch or its stream has ended: io.EOF means OK.
func (w *subscribedWatch) Recv() (*fanoutv1.WatchResponse, error) {
	var e *fanoutv1.SubscribeResponse_Entry
	for e == nil {
		w.s.mu.Lock()
		if w.read < len(w.entries) {
			e = w.entries[w.read]
		}
		err, changed := w.s.err, w.s.changed
		w.s.mu.Unlock()
		if e == nil && err != nil {
			return nil, fmt.Errorf("the stream ended: %w", err)
		}
		if e == nil {
			select {
			case <-changed:
			case <-w.s.patient.Done():
				return nil, w.s.patient.Err()
			}
		}
	}
	w.s.mu.Lock()
	w.read++
	w.s.mu.Unlock()
	switch {
	case e.GetResponse() != nil:
		return e.GetResponse(), nil
	case e.GetRefused() != nil:
		return nil, status.ErrorProto(e.GetRefused())
	case e.GetEnded().GetCode() != 0:
		return nil, status.ErrorProto(e.GetEnded())
	}
	return nil, io.EOF
}

// wantEnded checks that the watch ends next with OK.
func (w *watch) wantEnded() {
	w.t.Helper()
	if m, err := w.stream.Recv(); err != io.EOF {
		w.t.Fatalf("got %v, %v, want that the watch ends with OK", m, err)
	}
}

// wantRefused checks that the start of the watch was refused.
func (w *watch) wantRefused(want refusal) {
	w.t.Helper()
	_, err := w.stream.Recv()
	wantRefusal(w.t, err, want)
	s := w.stream.(*subscribedWatch)
	s.s.mu.Lock()
	defer s.s.mu.Unlock()
	if len(s.entries) != 1 || s.entries[0].GetRefused() == nil {
		w.t.Errorf("got %v, want one entry with refused", s.entries)
	}
}

// overSubscribe returns the instance with a client that makes its watches on one stream of
// Subscribe.
func (in *instance) overSubscribe(ctx context.Context, t *testing.T) *instance {
	t.Helper()
	other := *in
	other.reads = &subscribingClient{FanoutServiceClient: in.reads, on: in.subscribe(ctx, t)}
	return &other
}

type subscribingClient struct {
	fanoutv1.FanoutServiceClient
	on *subscription
}

// Watch starts a watch on the stream, and stops it when ctx ends.
func (c *subscribingClient) Watch(ctx context.Context, req *fanoutv1.WatchRequest, _ ...grpc.CallOption) (fanoutv1.FanoutService_WatchClient, error) {
	c.on.mu.Lock()
	c.on.next++
	id := c.on.next
	c.on.mu.Unlock()
	w := c.on.start(id, req)
	context.AfterFunc(ctx, func() { _ = c.on.stream.Send(stopRequest(id)) })
	return w.stream, nil
}
