package client_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/fanoutd/fanoutd/client"
	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// gateServer answers WatchApplied with what the test says, and can be stopped and started
// again. It runs in a bubble of testing/synctest.
type gateServer struct {
	fanoutv1.UnimplementedAdminServiceServer

	mu       sync.Mutex                     // guards what follows
	answer   *fanoutv1.WatchAppliedResponse // nil: the server is silent
	refusal  error                          // instead of an answer
	changed  chan struct{}                  // closed when answer or refusal changes
	requests []*fanoutv1.WatchAppliedRequest
	dials    int
	listener *bufconn.Listener // nil: the server is down
	stop     func()
}

func newGateServer(t *testing.T) *gateServer {
	s := &gateServer{changed: make(chan struct{})}
	t.Cleanup(s.down)
	return s
}

// WatchApplied sends each answer.
func (s *gateServer) WatchApplied(req *fanoutv1.WatchAppliedRequest, out grpc.ServerStreamingServer[fanoutv1.WatchAppliedResponse]) error {
	s.mu.Lock()
	s.requests = append(s.requests, proto.CloneOf(req))
	s.mu.Unlock()
	for {
		s.mu.Lock()
		answer, refusal, changed := s.answer, s.refusal, s.changed
		s.mu.Unlock()
		if refusal != nil {
			return refusal
		}
		if answer != nil {
			if err := out.Send(answer); err != nil {
				return err
			}
		}
		select {
		case <-changed:
		case <-out.Context().Done():
			return out.Context().Err()
		}
	}
}

// set changes the answer. Each name is that of a pending watch. "name: message" is one that has
// failed, and "name; message" one with an earlier error.
func (s *gateServer) set(watches, applied int64, pending ...string) *gateServer {
	m := &fanoutv1.WatchAppliedResponse{Watches: watches, Applied: applied}
	for i, name := range pending {
		name, message, failed := strings.Cut(name, ": ")
		earlier := false
		if !failed {
			name, message, earlier = strings.Cut(name, "; ")
		}
		w := &fanoutv1.WatcherStatus{Id: "id-" + name, Since: timestamppb.New(time.Unix(int64(i), 0)), Subscriber: &fanoutv1.Subscriber{Instance: name}, AppliedLag: durationpb.New(time.Millisecond)}
		if failed || earlier {
			w.Error, w.ErrorTime = &statuspb.Status{Code: int32(codes.InvalidArgument), Message: message}, timestamppb.New(time.Unix(5, 0))
		}
		if failed {
			m.Failed++
		}
		m.Pending = append(m.Pending, w)
	}
	s.change(func() { s.answer = m })
	return s
}

// answerWith changes the present answer.
func (s *gateServer) answerWith(edit func(*fanoutv1.WatchAppliedResponse)) {
	s.change(func() {
		s.answer = proto.CloneOf(s.answer)
		edit(s.answer)
	})
}

func (s *gateServer) refuse(err error) { s.change(func() { s.refusal = err }) }

func (s *gateServer) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	close(s.changed)
	s.changed = make(chan struct{})
}

// up starts the server.
func (s *gateServer) up() *gateServer {
	listener := bufconn.Listen(1 << 20)
	srv := grpc.NewServer(grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}))
	fanoutv1.RegisterAdminServiceServer(srv, s)
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = srv.Serve(listener)
	}()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listener, s.stop = listener, func() {
		srv.Stop()
		<-served
	}
	return s
}

// down stops the server.
func (s *gateServer) down() {
	s.mu.Lock()
	stop := s.stop
	s.listener, s.stop = nil, nil
	s.mu.Unlock()
	if stop != nil {
		stop()
	}
}

func (s *gateServer) dial(ctx context.Context) (net.Conn, error) {
	s.mu.Lock()
	s.dials++
	listener := s.listener
	s.mu.Unlock()
	if listener == nil {
		return nil, errors.New("connection refused")
	}
	return listener.DialContext(ctx)
}

// dialed returns the number of attempts to connect.
func (s *gateServer) dialed() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dials
}

// gateServers returns clients of the servers: "10.0.0.1:1" and so on.
func gateServers(t *testing.T, servers ...*gateServer) []client.Server {
	t.Helper()
	at, targets := map[string]*gateServer{}, []string(nil)
	for i, s := range servers {
		address := fmt.Sprintf("10.0.0.%d:1", i+1)
		at[address], targets = s, append(targets, address)
	}
	all, err := client.EachServer(t.Context(), strings.Join(targets, ","), client.WithInsecure(), client.WithDialOptions(
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) { return at[address].dial(ctx) }),
	))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, s := range all {
			if err := s.Close(); err != nil && !errors.Is(err, client.ErrClosed) {
				t.Error(err)
			}
		}
	})
	return all
}

// waiting is a Wait that runs.
type waiting struct {
	t     *testing.T
	began time.Time
	stop  context.CancelFunc
	done  chan struct{}

	status *client.WaitStatus // set before done is closed
	err    error
	lasted time.Duration

	mu   sync.Mutex         // guards last
	last *client.WaitStatus // of Progress
}

// wait starts a Wait for revision 7 that has an hour.
func wait(t *testing.T, servers []client.Server, o client.WaitOptions) *waiting {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour) // in the time of a bubble
	w := &waiting{t: t, began: time.Now(), stop: cancel, done: make(chan struct{})}
	o.Servers, o.Resource, o.Revision = servers, "config", 7
	progress := o.Progress
	o.Progress = func(s *client.WaitStatus) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.last = s
		if progress != nil {
			progress(s)
		}
	}
	go func() {
		defer close(w.done)
		w.status, w.err = client.Wait(ctx, o)
		w.lasted = time.Since(w.began)
	}()
	t.Cleanup(func() {
		cancel()
		<-w.done
	})
	return w
}

// progress returns the latest status.
func (w *waiting) progress() *client.WaitStatus {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last
}

// goesOn checks that the wait has not ended after a while.
func (w *waiting) goesOn(d time.Duration) *client.WaitStatus {
	w.t.Helper()
	select {
	case <-w.done:
		w.t.Fatalf("the wait has ended after %v: %v, %v", w.lasted, w.status, w.err)
	case <-time.After(d): // in the time of a bubble
	}
	return w.progress()
}

// ends waits for the end, and checks how long the wait has lasted.
func (w *waiting) ends(least, most time.Duration) (*client.WaitStatus, error) {
	w.t.Helper()
	<-w.done
	if w.lasted < least || w.lasted > most {
		w.t.Errorf("the wait lasted %v, want %v to %v: %v, %v", w.lasted, least, most, w.status, w.err)
	}
	return w.status, w.err
}
