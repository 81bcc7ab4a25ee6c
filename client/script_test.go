package client_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/fanoutd/fanoutd/client"
	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// script is a server that does what a real one does too seldom to be tested with:
// the first watch gets the first act, and so on; the last act is for all that
// follow. It lives in a bubble of testing/synctest.
type script struct {
	fanoutv1.UnimplementedFanoutServiceServer
	acts []act

	mu       sync.Mutex
	requests []*fanoutv1.WatchRequest // guarded by mu
	sent     atomic.Int64             // messages
	timed    atomic.Int64             // watches of which the server knows when they end
}

// act sends messages, after a silence, and ends the stream with the error, or never
// if there is none.
type act struct {
	silence  time.Duration
	messages []*fanoutv1.WatchResponse
	end      error
}

func (s *script) Watch(req *fanoutv1.WatchRequest, stream grpc.ServerStreamingServer[fanoutv1.WatchResponse]) error {
	s.mu.Lock()
	a := s.acts[min(len(s.requests), len(s.acts)-1)]
	s.requests = append(s.requests, proto.CloneOf(req))
	s.mu.Unlock()
	if _, ok := stream.Context().Deadline(); ok {
		s.timed.Add(1)
	}
	time.Sleep(a.silence)
	for _, m := range a.messages {
		if err := stream.Send(m); err != nil {
			return err
		}
		s.sent.Add(1)
	}
	switch a.end {
	case nil:
		<-stream.Context().Done()
		return stream.Context().Err()
	case errOK:
		return nil
	}
	return a.end
}

// errOK ends a stream without an error.
var errOK = errors.New("OK")

// message is a message of a script.
type message = *fanoutv1.WatchResponse

// begins returns where the watches were asked to begin, in short.
func (s *script) begins() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []string
	for _, r := range s.requests {
		switch b := r.GetBegin().(type) {
		case nil:
			all = append(all, "nothing")
			if least := r.GetConsistency().GetMinRevision(); least > 0 {
				all[len(all)-1] = fmt.Sprintf("nothing, at least %d", least)
			}
		case *fanoutv1.WatchRequest_FromNow:
			all = append(all, "now")
		case *fanoutv1.WatchRequest_After:
			all = append(all, show(client.Position{Epoch: b.After.GetEpoch(), Revision: b.After.GetRevision()}))
		}
	}
	return all
}

// play returns a client of the script.
func play(t *testing.T, s *script, opts ...client.Option) *client.Resource {
	t.Helper()
	c, r := playClient(t, s, opts...)
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// playAll returns a client of several scripts. They can be reached from the first
// moment on.
func playAll(t *testing.T, scripts ...*script) *client.Resource {
	t.Helper()
	c, r := playClients(t, scripts)
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	synctest.Wait()
	return r
}

// playClient is play for those who close the client.
func playClient(t *testing.T, s *script, opts ...client.Option) (*client.Client, *client.Resource) {
	t.Helper()
	return playClients(t, []*script{s}, opts...)
}

func playClients(t *testing.T, scripts []*script, opts ...client.Option) (*client.Client, *client.Resource) {
	t.Helper()
	listeners, targets := map[string]*bufconn.Listener{}, []string(nil)
	for i, s := range scripts {
		address := fmt.Sprintf("script-%d:1", i)
		listeners[address], targets = bufconn.Listen(1<<20), append(targets, address)
		serve(t, s, listeners[address])
	}
	target := strings.Join(targets, ",")
	if len(targets) == 1 {
		target = "passthrough:///" + target // DNS does not know it
	}
	c, err := client.New(target, append(opts, client.WithInsecure(), client.WithDialOptions(
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return listeners[address].DialContext(ctx)
		}),
	))...)
	if err != nil {
		t.Fatal(err)
	}
	return c, c.Resource("config")
}

// serve serves a script until the test is over.
func serve(t *testing.T, s *script, listener net.Listener) {
	t.Helper()
	srv := grpc.NewServer(grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second}))
	fanoutv1.RegisterFanoutServiceServer(srv, s)
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = srv.Serve(listener)
	}()
	t.Cleanup(func() {
		srv.Stop()
		<-served
	})
}

// The messages of scripts. All of them are of one epoch.

func at(revision int64) *fanoutv1.Position {
	return &fanoutv1.Position{Epoch: "e", Revision: revision}
}

func begin(kind fanoutv1.WatchResponse_CatchUp, revision int64) *fanoutv1.WatchResponse {
	return &fanoutv1.WatchResponse{Kind: fanoutv1.WatchResponse_KIND_CATCH_UP_BEGIN, CatchUp: kind, Position: at(revision)}
}

func reset() *fanoutv1.WatchResponse { return begin(fanoutv1.WatchResponse_CATCH_UP_RESET, 0) }

func delta(revision int64) *fanoutv1.WatchResponse {
	return begin(fanoutv1.WatchResponse_CATCH_UP_DELTA, revision)
}

func replay(revision int64) *fanoutv1.WatchResponse {
	return begin(fanoutv1.WatchResponse_CATCH_UP_REPLAY, revision)
}

func part(revision int64, events ...*fanoutv1.Event) *fanoutv1.WatchResponse {
	return &fanoutv1.WatchResponse{Kind: fanoutv1.WatchResponse_KIND_CATCH_UP_PART, Position: at(revision), Events: events}
}

func live(revision int64, events ...*fanoutv1.Event) *fanoutv1.WatchResponse {
	return &fanoutv1.WatchResponse{Kind: fanoutv1.WatchResponse_KIND_LIVE, Position: at(revision), Events: events}
}

func partial(m *fanoutv1.WatchResponse) *fanoutv1.WatchResponse {
	m.Partial = true
	return m
}

func synced(revision int64) *fanoutv1.WatchResponse {
	return &fanoutv1.WatchResponse{Kind: fanoutv1.WatchResponse_KIND_SYNCED, Position: at(revision)}
}

func bookmark(revision int64) *fanoutv1.WatchResponse {
	return &fanoutv1.WatchResponse{Kind: fanoutv1.WatchResponse_KIND_BOOKMARK, Position: at(revision)}
}

func draining(revision int64) *fanoutv1.WatchResponse {
	return &fanoutv1.WatchResponse{Kind: fanoutv1.WatchResponse_KIND_DRAINING, Position: at(revision)}
}

func event(kind fanoutv1.Event_Type, key string, revision int64) *fanoutv1.Event {
	return &fanoutv1.Event{Type: kind, Object: &fanoutv1.Object{
		Key: key, ModRevision: revision, Value: &fanoutv1.Object_Text{Text: key},
	}}
}

func added(key string, revision int64) *fanoutv1.Event {
	return event(fanoutv1.Event_TYPE_ADDED, key, revision)
}

func modified(key string, revision int64) *fanoutv1.Event {
	return event(fanoutv1.Event_TYPE_MODIFIED, key, revision)
}

func deleted(key string, revision int64) *fanoutv1.Event {
	return event(fanoutv1.Event_TYPE_DELETED, key, revision)
}

// refusal is a status with a reason.
func refusal(code codes.Code, reason client.Reason, details ...protoadapt.MessageV1) error {
	st, err := status.New(code, "no").WithDetails(append(details, &errdetails.ErrorInfo{Domain: "fanoutd.github.io", Reason: string(reason)})...)
	if err != nil {
		panic(err)
	}
	return st.Err()
}

// lost is the end of a stream whose server is gone.
var lost = status.Error(codes.Unavailable, "gone")

func retryIn(seconds int64) *errdetails.RetryInfo {
	return &errdetails.RetryInfo{RetryDelay: &durationpb.Duration{Seconds: seconds}}
}
