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
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/fanoutd/fanoutd/client"
	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// scriptedServer answers watches as a script says, to test what a real server does too
// rarely. The first watch gets the first stream, and so on; further watches get the
// last stream. It runs in a bubble of testing/synctest.
type scriptedServer struct {
	fanoutv1.UnimplementedFanoutServiceServer
	streams []stream
	// script returns the stream for a watch; nil: the next one of streams.
	script func(*fanoutv1.WatchRequest) stream
	// subscribe replaces the method Subscribe.
	subscribe func(subscribeStream) error
	// reports returns the answer to a report; nil: the server does not know reports.
	reports func(*fanoutv1.ReportRequest) error

	mu        sync.Mutex
	requests  []*fanoutv1.WatchRequest // guarded by mu
	sent      atomic.Int64             // messages
	deadlines atomic.Int64             // watches whose deadline the server knows
	watches   atomic.Int64             // calls of Watch
	shared    atomic.Int64             // calls of Subscribe
	active    atomic.Int64             // watches that have not ended
}

// stream is silent for a while, sends messages, then others after pauses, and ends with the
// error. Without an error it stays open.
type stream struct {
	silence  time.Duration
	messages []message
	paced    bool // pause after each message, so that the client handles it before the next one
	later    []delayed
	lasts    time.Duration // until the end
	end      error
}

// delayed is a message after a pause.
type delayed struct {
	pause time.Duration
	message
}

type message = *fanoutv1.WatchResponse

// Ends of streams.
var (
	errOK   = errors.New("OK") // ends a stream without an error
	errLost = status.Error(codes.Unavailable, "gone")
)

// refusal returns a status with a reason.
func refusal(code codes.Code, reason client.Reason, details ...protoadapt.MessageV1) error {
	st, err := status.New(code, "no").WithDetails(append(details, &errdetails.ErrorInfo{Domain: "fanoutd.github.io", Reason: string(reason)})...)
	if err != nil {
		panic(err)
	}
	return st.Err()
}

func retryIn(seconds int64) *errdetails.RetryInfo {
	return &errdetails.RetryInfo{RetryDelay: &durationpb.Duration{Seconds: seconds}}
}

// Watch implements fanoutv1.FanoutServiceServer.
func (s *scriptedServer) Watch(req *fanoutv1.WatchRequest, out grpc.ServerStreamingServer[fanoutv1.WatchResponse]) error {
	script, name := s.begin(req)
	if s.reports != nil {
		if err := out.SetHeader(metadata.Pairs("fanout-watch", name)); err != nil {
			return err
		}
	}
	s.watches.Add(1)
	if err := s.play(out.Context(), script, out.Send); err != errOK {
		return err
	}
	return nil
}

// begin notes a request. It returns the script of the watch, and its name in reports.
func (s *scriptedServer) begin(req *fanoutv1.WatchRequest) (script stream, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.script != nil {
		script = s.script(req)
	} else {
		script = s.streams[min(len(s.requests), len(s.streams)-1)]
	}
	s.requests = append(s.requests, proto.CloneOf(req))
	return script, fmt.Sprintf("watch-%d", len(s.requests))
}

// play sends the messages of a script, and returns how it ends.
func (s *scriptedServer) play(ctx context.Context, script stream, send func(message) error) error {
	s.active.Add(1)
	defer s.active.Add(-1)
	if _, ok := ctx.Deadline(); ok {
		s.deadlines.Add(1)
	}
	time.Sleep(script.silence)
	for _, m := range script.messages {
		if err := send(m); err != nil {
			return err
		}
		s.sent.Add(1)
		if script.paced {
			time.Sleep(time.Millisecond)
		}
	}
	for _, d := range script.later {
		select {
		case <-time.After(d.pause):
		case <-ctx.Done():
		}
		if err := send(d.message); err != nil {
			return err
		}
	}
	time.Sleep(script.lasts)
	if script.end == nil {
		<-ctx.Done()
		return ctx.Err()
	}
	return script.end
}

// Report implements fanoutv1.FanoutServiceServer.
func (s *scriptedServer) Report(_ context.Context, req *fanoutv1.ReportRequest) (*fanoutv1.ReportResponse, error) {
	if s.reports == nil {
		return nil, status.Error(codes.Unimplemented, "no")
	}
	return &fanoutv1.ReportResponse{}, s.reports(req)
}

// starts returns where each watch asked to begin, in short.
func (s *scriptedServer) starts() []string {
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
			all = append(all, formatPosition(client.Position{Epoch: b.After.GetEpoch(), Revision: b.After.GetRevision()}))
		}
	}
	return all
}

// connectTo returns a resource of a scripted server. The client is closed when the test
// ends.
func connectTo(t *testing.T, s *scriptedServer, opts ...client.Option) *client.Resource {
	t.Helper()
	c := dialScripted(t, []*scriptedServer{s}, opts...)
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c.Resource("config")
}

// connectToAll is connectTo for several servers. All connections are ready when it
// returns.
func connectToAll(t *testing.T, servers ...*scriptedServer) *client.Resource {
	t.Helper()
	c := dialScripted(t, servers)
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	synctest.Wait()
	return c.Resource("config")
}

// dialScripted returns a client of scripted servers. The caller closes it.
func dialScripted(t *testing.T, servers []*scriptedServer, opts ...client.Option) *client.Client {
	t.Helper()
	var all []*grpc.Server
	for _, s := range servers {
		srv := grpc.NewServer(grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}))
		fanoutv1.RegisterFanoutServiceServer(srv, s)
		all = append(all, srv)
	}
	return dialInMemory(t, all, append(opts, client.WithDialOptions(grpc.WithChainStreamInterceptor(refuseSubscribe)))...)
}

// dialInMemory serves until the test ends, and returns a client of the servers. The caller closes it.
func dialInMemory(t *testing.T, servers []*grpc.Server, opts ...client.Option) *client.Client {
	t.Helper()
	listeners, targets := map[string]*bufconn.Listener{}, []string(nil)
	for i, s := range servers {
		address := fmt.Sprintf("script-%d:1", i)
		listener := bufconn.Listen(1 << 20)
		listeners[address], targets = listener, append(targets, address)
		served := make(chan struct{})
		go func() {
			defer close(served)
			_ = s.Serve(listener)
		}()
		t.Cleanup(func() {
			s.Stop()
			<-served
		})
	}
	target := strings.Join(targets, ",")
	if len(targets) == 1 {
		target = "passthrough:///" + target // DNS does not know the name
	}
	c, err := client.New(target, append(opts, client.WithInsecure(), client.WithDialOptions(
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return listeners[address].DialContext(ctx)
		}),
	))...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// The messages of scripts are of the epoch "e" unless inNewEpoch changes that.

func at(revision int64) *fanoutv1.Position {
	return &fanoutv1.Position{Epoch: "e", Revision: revision}
}

// inNewEpoch moves a message to another epoch.
func inNewEpoch(m message) message {
	m.Position.Epoch = "f"
	return m
}

func catchUp(kind fanoutv1.WatchResponse_CatchUp, revision int64) message {
	return &fanoutv1.WatchResponse{Kind: fanoutv1.WatchResponse_KIND_CATCH_UP_BEGIN, CatchUp: kind, Position: at(revision)}
}

func reset() message { return catchUp(fanoutv1.WatchResponse_CATCH_UP_RESET, 0) }

func delta(revision int64) message {
	return catchUp(fanoutv1.WatchResponse_CATCH_UP_DELTA, revision)
}

func replay(revision int64) message {
	return catchUp(fanoutv1.WatchResponse_CATCH_UP_REPLAY, revision)
}

func part(revision int64, events ...*fanoutv1.Event) message {
	return &fanoutv1.WatchResponse{Kind: fanoutv1.WatchResponse_KIND_CATCH_UP_PART, Position: at(revision), Events: events}
}

func live(revision int64, events ...*fanoutv1.Event) message {
	return &fanoutv1.WatchResponse{Kind: fanoutv1.WatchResponse_KIND_LIVE, Position: at(revision), Events: events}
}

func partial(m message) message {
	m.Partial = true
	return m
}

func synced(revision int64) message {
	return &fanoutv1.WatchResponse{Kind: fanoutv1.WatchResponse_KIND_SYNCED, Position: at(revision)}
}

func bookmark(revision int64) message {
	return &fanoutv1.WatchResponse{Kind: fanoutv1.WatchResponse_KIND_BOOKMARK, Position: at(revision)}
}

func draining(revision int64) message {
	return &fanoutv1.WatchResponse{Kind: fanoutv1.WatchResponse_KIND_DRAINING, Position: at(revision)}
}

// drainedInTurn is draining of a server that spreads the ends of its watches.
func drainedInTurn(revision int64) message {
	m := draining(revision)
	m.ResumeAtOnce = true
	return m
}

func event(kind fanoutv1.Event_Type, key string, revision int64) *fanoutv1.Event {
	return &fanoutv1.Event{Type: kind, Revision: revision, Object: &fanoutv1.Object{
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

// withValue sets the value of an event, which otherwise is the key.
func withValue(e *fanoutv1.Event, value string) *fanoutv1.Event {
	e.Object.Value = &fanoutv1.Object_Text{Text: value}
	return e
}
