package server_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/access"
	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/server"
	"github.com/fanoutd/fanoutd/internal/server/apierr"
	"github.com/fanoutd/fanoutd/internal/server/quota"
	"github.com/fanoutd/fanoutd/test/poll"
	"github.com/fanoutd/fanoutd/test/race"
)

// exhausted is the refusal of a request that is over a limit.
func exhausted(reason apierr.Reason, metadata map[string]string) refusal {
	return refusal{Code: codes.ResourceExhausted, Reason: reason, Metadata: metadata, Retry: reason != apierr.ReasonRequestTooLarge}
}

// host is a machine of the network of this one, 127.0.0.0/8.
func host(n int) string { return fmt.Sprintf("127.0.0.%d", n) }

// dialer connects from a host.
func dialer(from string) *net.Dialer {
	return &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
}

// dialFrom returns a connection from a host.
func (in *instance) dialFrom(t *testing.T, from string, more ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	return dial(t, in.address, append(more, grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
		return dialer(from).DialContext(ctx, "tcp", address)
	}))...)
}

// awaitUsage waits until what is taken of the limits is as wanted.
func (in *instance) awaitUsage(ctx context.Context, t *testing.T, what string, is func(quota.Usage) bool) {
	t.Helper()
	if !poll.Wait(ctx, func() bool { return is(in.server.Usage()) }) {
		t.Fatalf("waiting until %s: %+v", what, in.server.Usage())
	}
}

// wantNothingTaken checks that nothing is left of what clients held, but connections.
func (in *instance) wantNothingTaken(ctx context.Context, t *testing.T) {
	t.Helper()
	in.awaitUsage(ctx, t, "nothing is taken", func(u quota.Usage) bool {
		if u.ListBytes > 0 {
			runtime.GC() // it finds what a broken connection has left
		}
		u.Connections, u.Refused = 0, nil
		return cmp.Equal(u, quota.Usage{})
	})
}

// opened returns a function that ends a new watch, or why it was refused.
func opened(ctx context.Context, reads fanoutv1.FanoutServiceClient, req *fanoutv1.WatchRequest) (end func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	stream, err := reads.Watch(ctx, req)
	if err == nil {
		_, err = stream.Recv()
	}
	if err != nil {
		cancel()
	}
	return cancel, err
}

func TestWatchesAreLimitedForEachClientAndInTotal(t *testing.T) {
	in := start(t, settings{limits: quota.Limits{Watchers: 3, WatchersPerClient: 2}})
	ctx := within(t)
	in.awaitLoaded(ctx, t)
	req := &fanoutv1.WatchRequest{Resource: config, Begin: fromNow()}
	one, other := fanoutv1.NewFanoutServiceClient(in.dialFrom(t, host(2))), fanoutv1.NewFanoutServiceClient(in.dialFrom(t, host(3)))
	mustOpen := func(reads fanoutv1.FanoutServiceClient) func() {
		t.Helper()
		end, err := opened(ctx, reads, req)
		if err != nil {
			t.Fatal(err)
		}
		return end
	}
	end := []func(){mustOpen(one), mustOpen(one)}
	_, err := opened(ctx, one, req)
	wantRefusal(t, err, exhausted(apierr.ReasonTooManyWatchersOfClient, map[string]string{"limit": "2", "client": host(2)}))

	end = append(end, mustOpen(other)) // it is not hindered
	_, err = opened(ctx, other, req)
	wantRefusal(t, err, exhausted(apierr.ReasonTooManyWatchers, map[string]string{"limit": "3"}))

	end[0]()
	in.awaitUsage(ctx, t, "the place is free", func(u quota.Usage) bool { return u.Watchers == 2 })
	end = append(end, mustOpen(other))
	u := in.server.Usage()
	if u.Watchers != 3 || u.WatchClients != 2 {
		t.Errorf("the server counts %+v", u)
	}
	if u.Refused[apierr.ReasonTooManyWatchers] != 1 || u.Refused[apierr.ReasonTooManyWatchersOfClient] != 1 {
		t.Errorf("the server has counted the refusals %v", u.Refused)
	}
	for _, end := range end {
		end()
	}
	in.wantNothingTaken(ctx, t)
}

// What is refused for another reason has not taken anything either.
func TestRefusedWatchesHoldNoPlace(t *testing.T) {
	in := start(t, settings{limits: quota.Limits{Watchers: 1, WatchersPerClient: 1, Snapshots: 1}})
	ctx := within(t)
	in.awaitLoaded(ctx, t)
	for range 3 {
		_, err := opened(ctx, in.reads, &fanoutv1.WatchRequest{Resource: config, Begin: after(&fanoutv1.Position{Epoch: in.epoch(ctx, t), Revision: 1 << 40})})
		if refusalIn(t, err).Reason != apierr.ReasonRevisionInFuture {
			t.Fatal(err)
		}
	}
	in.wantNothingTaken(ctx, t)
}

// someObjects writes so many objects of 64 KiB.
func (in *instance) someObjects(ctx context.Context, t *testing.T, count int) {
	t.Helper()
	for i := range count {
		in.put(ctx, t, config, fmt.Sprintf("%04d", i), strings.Repeat("x", 64<<10))
	}
}

const narrow = 1 << 10 // a window through which no snapshot fits

// Somebody who does not read its snapshot keeps the place for no longer than the
// lease.
func TestAReaderThatStopsLosesItsTurn(t *testing.T) {
	in := start(t, settings{
		limits: quota.Limits{Snapshots: 1}, messageBytes: 128 << 10,
		prepare: func(s *server.Server) { s.SetSlotTimes(patience, 100*time.Millisecond) },
	})
	ctx := within(t)
	in.someObjects(ctx, t, 8)
	stuck := openRaw(ctx, t, in.address, &fanoutv1.WatchRequest{Resource: config}, narrow)
	stuck.readFrames()
	in.awaitUsage(ctx, t, "somebody is sent a snapshot", func(u quota.Usage) bool { return u.Snapshots == 1 })

	w := in.watch(ctx, t, &fanoutv1.WatchRequest{Resource: config})
	if events, _ := w.catchUp(fanoutv1.WatchResponse_CATCH_UP_RESET); len(events) != 8 {
		t.Errorf("the other one was told %d events, want 8", len(events))
	}
	// It goes on where it was when it reads again.
	stuck.grant(t, 1<<30)
	all, err := stuck.await(ctx, t, "it has caught up", func(s *rawStream) bool { return synced(s.all) })
	if err != nil {
		t.Fatal(err)
	}
	if events := eventsOf(all); len(events) != 8 {
		t.Errorf("who was stuck was told %d events, want 8", len(events))
	}
	in.awaitUsage(ctx, t, "no snapshot is sent", func(u quota.Usage) bool { return u.Snapshots == 0 && u.SnapshotsWaiting == 0 })
}

func TestWhoseTurnDoesNotComeIsToldToComeBack(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	in := start(t, settings{
		limits: quota.Limits{Snapshots: 1}, messageBytes: 128 << 10,
		prepare: func(s *server.Server) { s.SetSlotTimes(50*time.Millisecond, time.Hour) },
	})
	ctx := within(t)
	in.someObjects(ctx, t, 8)
	here := in.list(ctx, t, &fanoutv1.ListRequest{Resource: config, PageSize: 1}, nothing).at
	stuck := openRaw(ctx, t, in.address, &fanoutv1.WatchRequest{Resource: config}, narrow)
	stuck.readFrames()
	in.awaitUsage(ctx, t, "somebody is sent a snapshot", func(u quota.Usage) bool { return u.Snapshots == 1 })

	_, err := opened(ctx, in.reads, &fanoutv1.WatchRequest{Resource: config})
	wantRefusal(t, err, exhausted(apierr.ReasonTooManySnapshots, map[string]string{"limit": "1"}))
	// Events need no turn, from now on or from before.
	for _, req := range []*fanoutv1.WatchRequest{
		{Resource: config, Begin: fromNow()},
		{Resource: config, Begin: after(here)},
	} {
		end, err := opened(ctx, in.reads, req)
		if err != nil {
			t.Fatal(err)
		}
		end()
	}
	if err := stuck.conn.Close(); err != nil {
		t.Fatal(err)
	}
	in.awaitUsage(ctx, t, "the place is free", func(u quota.Usage) bool { return u.Snapshots == 0 })
	in.watch(ctx, t, &fanoutv1.WatchRequest{Resource: config}).catchUp(fanoutv1.WatchResponse_CATCH_UP_RESET)
}

// Everybody gets through a narrow door, who reads and who does not.
func TestAllGetTheirSnapshots(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	const hosts, objects = 10, 8
	each, stuck := 100, 20
	if race.Enabled {
		each = 20
	}
	in := start(t, settings{
		limits: quota.Limits{Snapshots: 2}, messageBytes: 128 << 10,
		prepare: func(s *server.Server) { s.SetSlotTimes(patience, 10*time.Millisecond) },
	})
	ctx := within(t)
	in.someObjects(ctx, t, objects)
	for range stuck {
		openRaw(ctx, t, in.address, &fanoutv1.WatchRequest{Resource: config}, narrow).readFrames()
	}
	done, leave := context.WithCancel(ctx)
	var group sync.WaitGroup
	for h := range hosts {
		reads := fanoutv1.NewFanoutServiceClient(in.dialFrom(t, host(2+h)))
		for range each {
			group.Go(func() {
				stream, err := reads.Watch(done, &fanoutv1.WatchRequest{Resource: config})
				if err != nil {
					t.Error(err)
					return
				}
				var all []*fanoutv1.WatchResponse
				for !synced(all) {
					m, err := stream.Recv()
					if err != nil {
						t.Error(err)
						return
					}
					all = append(all, m)
				}
				if n := len(eventsOf(all)); n != objects {
					t.Errorf("a watcher was told %d objects, want %d", n, objects)
				}
			})
		}
	}
	group.Wait()
	leave()
}

// openList asks for a list and reads nothing of the response.
func openList(ctx context.Context, t *testing.T, conn *grpc.ClientConn) {
	t.Helper()
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, fanoutv1.FanoutService_List_FullMethodName)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(stream.SendMsg(&fanoutv1.ListRequest{Resource: config}), stream.CloseSend()); err != nil {
		t.Fatal(err)
	}
}

// Responses that nobody reads take room until their streams or their connections
// end. They leave as much as they take.
func TestListsThatNobodyReads(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	const objects = 16 // a MiB
	in := start(t, settings{
		limits:  quota.Limits{ListBytes: 5 << 20},
		prepare: func(s *server.Server) { s.SetSlotTimes(50*time.Millisecond, time.Hour) },
	})
	ctx := within(t)
	in.someObjects(ctx, t, objects)
	narrowly := []grpc.DialOption{grpc.WithStaticStreamWindowSize(64 << 10), grpc.WithStaticConnWindowSize(64 << 10)}
	held := func(u quota.Usage) bool { return u.ListBytes > objects*64<<10 && u.ListBytes < 2<<20 }
	list := func(reads fanoutv1.FanoutServiceClient) error {
		_, err := reads.List(ctx, &fanoutv1.ListRequest{Resource: config})
		return err
	}
	for name, end := range map[string]func(cancel func(), conn *grpc.ClientConn){
		"stream":     func(cancel func(), _ *grpc.ClientConn) { cancel() },
		"connection": func(_ func(), conn *grpc.ClientConn) { _ = conn.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			conn := in.dialFrom(t, host(2), narrowly...)
			stuck, cancel := context.WithCancel(ctx)
			defer cancel()
			openList(stuck, t, conn)
			in.awaitUsage(ctx, t, "a list is held", held)
			// A second one could be three MiB, and four would be more than is left.
			err := list(fanoutv1.NewFanoutServiceClient(in.dialFrom(t, host(2))))
			wantRefusal(t, err, exhausted(apierr.ReasonTooManyLists, map[string]string{"limit": fmt.Sprint(5 << 20)}))
			if err := list(fanoutv1.NewFanoutServiceClient(in.dialFrom(t, host(3)))); err != nil {
				t.Errorf("the list of another client: %v", err)
			}
			end(cancel, conn)
			in.wantNothingTaken(ctx, t)
		})
	}
	// Those that are read leave nothing, nor do those that are refused.
	for range 10 {
		if err := list(in.reads); err != nil {
			t.Error(err)
		}
		_, err := in.reads.List(ctx, &fanoutv1.ListRequest{Resource: config, Consistency: exactRevision(1 << 40)})
		if err == nil {
			t.Error("a list of the future was served")
		}
	}
	in.wantNothingTaken(ctx, t)
}

// A request whose handler panics leaves nothing behind either.
func TestAPanicGivesBackWhatItHeld(t *testing.T) {
	in := start(t, settings{
		limits: quota.Limits{ListBytes: 8 << 20, Watchers: 2, Snapshots: 1}, encoder: explodingEncoder{},
		window: cacher.WindowLimits{MaxChanges: 1},
	})
	ctx := within(t)
	old := in.put(ctx, t, config, "a", "1")
	for range 3 {
		in.put(ctx, t, config, "bomb", "1")
	}
	in.list(ctx, t, &fanoutv1.ListRequest{Resource: config}, nothing) // the window has moved on
	before := in.seams[config].counted()["List"]
	in.seams[config].on(func(_ context.Context, method string) error {
		if method == "List" {
			panic("bang in a list")
		}
		return nil
	})
	_, err := in.reads.List(ctx, &fanoutv1.ListRequest{Resource: config, Consistency: exactRevision(old)})
	wantRefusal(t, err, internal)
	if in.seams[config].counted()["List"] == before {
		t.Error("the test is too easy: the past was not read from the store")
	}
	_, err = in.reads.Watch(ctx, &fanoutv1.WatchRequest{Resource: config})
	if err != nil {
		t.Fatal(err)
	}
	in.lines.await(ctx, t, line{"msg": "a handler panicked", "method": "/fanout.v1.FanoutService/Watch"})
	in.wantNothingTaken(ctx, t)
}

func TestRequestsAreLimitedInSize(t *testing.T) {
	const limit = 64 << 10
	in := start(t, settings{limits: quota.Limits{RequestBytes: limit}})
	ctx := within(t)
	in.put(ctx, t, config, "a", strings.Repeat("x", limit-100))
	_, err := in.writes.Put(ctx, &fanoutv1.PutRequest{Resource: config, Put: putText("a", strings.Repeat("x", limit))})
	refused := refusalIn(t, err)
	size := refused.Metadata["size"]
	if diff := cmp.Diff(exhausted(apierr.ReasonRequestTooLarge, map[string]string{"limit": fmt.Sprint(limit), "size": size}), refused); diff != "" {
		t.Error(diff)
	}
	_, err = opened(ctx, in.reads, &fanoutv1.WatchRequest{Resource: strings.Repeat("x", limit)})
	if got := refusalIn(t, err).Reason; got != apierr.ReasonRequestTooLarge {
		t.Errorf("a large watch is refused with %v", got)
	}
	_, err = in.writes.Put(ctx, &fanoutv1.PutRequest{Resource: config, Put: putText("a", strings.Repeat("x", 2*limit))})
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a request of twice the size: %v", err)
	}
}

func TestHeadersAreLimitedInSize(t *testing.T) {
	in := start(t, settings{})
	ctx := within(t)
	in.awaitLoaded(ctx, t)
	many := metadata.AppendToOutgoingContext(ctx, "x-much", strings.Repeat("x", 100<<10))
	if _, err := in.reads.List(many, &fanoutv1.ListRequest{Resource: config}); err == nil {
		t.Error("100 KiB of headers are taken")
	}
	some := metadata.AppendToOutgoingContext(ctx, "x-some", strings.Repeat("x", 32<<10))
	if _, err := in.reads.List(some, &fanoutv1.ListRequest{Resource: config}); err != nil {
		t.Error(err)
	}
}

// A client that wants more streams on a connection than there may be waits for one
// to end.
func TestStreamsOfAConnectionAreLimited(t *testing.T) {
	in := start(t, settings{limits: quota.Limits{StreamsPerConnection: 2}})
	ctx := within(t)
	in.awaitLoaded(ctx, t)
	req := &fanoutv1.WatchRequest{Resource: config, Begin: fromNow()}
	end, err := opened(ctx, in.reads, req)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := opened(ctx, in.reads, req); err != nil {
		t.Fatal(err)
	}
	third := make(chan error, 1)
	go func() {
		_, err := opened(ctx, in.reads, req)
		third <- err
	}()
	// Another connection has streams of its own, and the third one is not on it.
	if _, err := opened(ctx, fanoutv1.NewFanoutServiceClient(dial(t, in.address)), req); err != nil {
		t.Fatal(err)
	}
	if n := in.server.Usage().Watchers; n != 3 {
		t.Errorf("there are %d watches", n)
	}
	select {
	case err := <-third:
		t.Fatalf("the third stream did not wait: %v", err)
	default:
	}
	end()
	if err := <-third; err != nil {
		t.Error(err)
	}
}

func TestConnectionsAreLimitedForEachHostAndInTotal(t *testing.T) {
	in := start(t, settings{limits: quota.Limits{Connections: 4, ConnectionsPerClient: 2}})
	ctx := within(t)
	in.awaitLoaded(ctx, t) // over a connection of host 1
	// connect returns a connection, nil if it was closed.
	connect := func(from string) net.Conn {
		t.Helper()
		conn, err := dialer(from).DialContext(ctx, "tcp", in.address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		if deadline, ok := ctx.Deadline(); ok {
			if err := conn.SetDeadline(deadline); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := io.WriteString(conn, http2Preface+string(http2Frame(http2Settings, nil))); err != nil {
			return nil
		}
		if _, err := conn.Read(make([]byte, 1)); err != nil {
			return nil
		}
		return conn
	}
	first := connect(host(2))
	if first == nil || connect(host(2)) == nil {
		t.Fatal("two connections of a host are not taken")
	}
	if connect(host(2)) != nil {
		t.Error("a third connection of a host is taken")
	}
	if connect(host(3)) == nil {
		t.Error("the connection of another host is not taken")
	}
	if connect(host(4)) != nil {
		t.Error("a fifth connection is taken")
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	in.awaitUsage(ctx, t, "the connection is gone", func(u quota.Usage) bool { return u.Connections == 3 })
	if connect(host(4)) == nil {
		t.Error("the place of a connection that was closed is not free")
	}
}

func TestTheRateOfRequestsIsLimitedForEachClient(t *testing.T) {
	const burst = 5
	in := start(t, settings{limits: quota.Limits{RequestRate: 0.001, RequestBurst: burst}})
	ctx := within(t)
	one, other := in.dialFrom(t, host(2)), in.dialFrom(t, host(3))
	list := func(conn *grpc.ClientConn) error {
		_, err := fanoutv1.NewFanoutServiceClient(conn).List(ctx, &fanoutv1.ListRequest{Resource: config, Consistency: anyRevision()})
		return err
	}
	for range burst - 1 {
		if err := list(one); err != nil && refusalIn(t, err).Reason != apierr.ReasonNotReady {
			t.Fatal(err)
		}
	}
	req := &fanoutv1.WatchRequest{Resource: config, Begin: fromNow()}
	if _, err := opened(ctx, fanoutv1.NewFanoutServiceClient(one), req); err != nil && refusalIn(t, err).Reason != apierr.ReasonNotReady {
		t.Fatal(err)
	}
	limited := exhausted(apierr.ReasonRateLimited, map[string]string{"limit": "0.001", "client": host(2)})
	err := list(one)
	wantRefusal(t, err, limited)
	for _, detail := range status.Convert(err).Details() {
		// A thousand seconds for each request; the burst has just been used up.
		if d, ok := detail.(*errdetails.RetryInfo); ok && (d.GetRetryDelay().AsDuration() > 1000*time.Second || d.GetRetryDelay().AsDuration() < 900*time.Second) {
			t.Errorf("the next turn is said to be in %v", d.GetRetryDelay().AsDuration())
		}
	}
	_, err = opened(ctx, fanoutv1.NewFanoutServiceClient(one), req)
	wantRefusal(t, err, limited)

	if err := list(other); err != nil && refusalIn(t, err).Reason != apierr.ReasonNotReady {
		t.Errorf("another client: %v", err)
	}
	if _, err := healthpb.NewHealthClient(one).Check(ctx, &healthpb.HealthCheckRequest{}); err != nil {
		t.Errorf("asked for its health: %v", err)
	}
	// The log says so once, not for each of them.
	in.lines.await(ctx, t, line{"msg": "requests are refused", "level": "WARN", "reason": "RATE_LIMITED", "client": host(2)})
	if n := strings.Count(in.lines.text(), `"requests are refused"`); n != 1 {
		t.Errorf("the log says %d times that requests are refused, want once", n)
	}
}

// Who shows what is not good cannot do so more often than others may ask. Those who show
// what is good do not pay for it, be it from the same host.
func TestRefusedCredentialsAreLimited(t *testing.T) {
	log := openAudit(t)
	verifier := &fickle{}
	in := start(t, settings{audit: log.Log, limits: quota.Limits{RequestRate: 0.001, RequestBurst: 2}, configure: func(cfg *server.Config) {
		cfg.Authenticator = &access.Authenticator{JWTs: verifier}
	}})
	ctx := within(t)
	get := func(header ...string) error {
		_, err := in.reads.Get(metadata.AppendToOutgoingContext(ctx, header...), &fanoutv1.GetRequest{Resource: config, Key: "a"})
		return err
	}
	for _, header := range [][]string{{"authorization", "Basic x"}, nil} {
		wantRefusal(t, get(header...), refusal{Code: codes.Unauthenticated, Reason: apierr.ReasonUnauthenticated})
	}
	for range 3 {
		wantRefusal(t, get("authorization", "Basic x"), exhausted(apierr.ReasonRateLimited, map[string]string{"limit": "0.001", "client": host(1)}))
	}
	stream, err := in.reads.Watch(ctx, &fanoutv1.WatchRequest{Resource: config})
	if err == nil {
		_, err = stream.Recv()
	}
	wantRefusal(t, err, exhausted(apierr.ReasonRateLimited, map[string]string{"limit": "0.001", "client": host(1)}))
	if err := get("authorization", "Bearer ann"); status.Code(err) == codes.ResourceExhausted || status.Code(err) == codes.Unauthenticated {
		t.Error(err)
	}
	if got := len(log.lines(t)); got != 2 {
		t.Errorf("%d denials are recorded, want 2", got)
	}
}

// Who speaks for others holds an answer for as long as it makes its request: gRPC has
// sent it by then, but its reader has not taken it.
func TestAnswersForOthersAreHeldUntilTheirRequestsEnd(t *testing.T) {
	in := start(t, settings{limits: quota.Limits{ListBytes: 16 << 20}})
	ctx := within(t)
	in.someObjects(ctx, t, 8)
	conn, err := in.server.Local()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	reads := fanoutv1.NewFanoutServiceClient(conn)
	reading, done := context.WithCancel(ctx)
	var list *fanoutv1.ListResponse
	for n := range int64(2) {
		list, err = reads.List(reading, &fanoutv1.ListRequest{Resource: config})
		if err != nil || len(list.GetObjects()) != 8 {
			t.Fatal(len(list.GetObjects()), err)
		}
		if least, u := 2*(n+1)*8*64<<10, in.server.Usage(); u.ListBytes < least {
			t.Errorf("%d bytes are held, want %d at least", u.ListBytes, least)
		}
	}
	before := in.server.Usage().ListBytes
	got, err := reads.Get(reading, &fanoutv1.GetRequest{Resource: config, Key: list.GetObjects()[0].GetKey()})
	if err != nil || len(got.GetObject().GetText()) < 64<<10 {
		t.Fatal(got, err)
	}
	if u := in.server.Usage(); u.ListBytes < before+2*64<<10 {
		t.Errorf("%d bytes are held with an object besides, and %d without", u.ListBytes, before)
	}
	if _, err := reads.List(reading, &fanoutv1.ListRequest{Resource: "none"}); err == nil {
		t.Fatal("there is a resource none")
	}
	done()
	in.wantNothingTaken(ctx, t)
}

func TestSelectorsAreLimitedForEachClientAndInTotal(t *testing.T) {
	in := start(t, settings{limits: quota.Limits{Selectors: 3, SelectorsPerClient: 2}})
	ctx := within(t)
	in.awaitLoaded(ctx, t)
	one, other := fanoutv1.NewFanoutServiceClient(in.dialFrom(t, host(2))), fanoutv1.NewFanoutServiceClient(in.dialFrom(t, host(3)))
	open := func(reads fanoutv1.FanoutServiceClient, selector string) (end func(), err error) {
		return opened(ctx, reads, &fanoutv1.WatchRequest{Resource: config, LabelSelector: selector, Begin: fromNow()})
	}
	var all []func()
	mustOpen := func(reads fanoutv1.FanoutServiceClient, selectors ...string) {
		t.Helper()
		for _, selector := range selectors {
			end, err := open(reads, selector)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, end)
		}
	}
	mustOpen(one, "a!=1", "a!=2,b", "b,a!=2") // the last two are one
	_, err := open(one, "a!=3")
	wantRefusal(t, err, exhausted(apierr.ReasonTooManySelectorsOfClient, map[string]string{"limit": "2", "client": host(2)}))
	// What it has, what is found without being looked at, and no selector at all.
	mustOpen(one, "a!=1", "", "a=1", "a=2", "a=3", "a in (4)")

	mustOpen(other, "a!=1", "a!=3") // one of them is there already
	_, err = open(other, "a!=4")
	wantRefusal(t, err, exhausted(apierr.ReasonTooManySelectorsOfClient, map[string]string{"limit": "2", "client": host(3)}))
	third := fanoutv1.NewFanoutServiceClient(in.dialFrom(t, host(4)))
	_, err = open(third, "a!=4")
	wantRefusal(t, err, exhausted(apierr.ReasonTooManySelectors, map[string]string{"limit": "3"}))
	mustOpen(third, "a!=3")

	// Each of those who share one has to leave before it is free.
	all[0]()
	in.awaitUsage(ctx, t, "one watch is gone", func(u quota.Usage) bool { return u.Watchers == len(all)-1 })
	if n := in.server.Usage().Selectors; n != 3 {
		t.Errorf("%d selectors are counted, want 3", n)
	}
	for _, end := range all {
		end()
	}
	in.wantNothingTaken(ctx, t)
	if n := in.server.Usage().Selectors; n != 0 {
		t.Errorf("%d selectors are counted when nobody watches", n)
	}
}

func TestConnectionsThatComeTooFastWaitOrAreClosed(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	// A turn comes after 0.9 seconds, or after 1.8 for the second one who waits.
	in := start(t, settings{limits: quota.Limits{ConnectionRate: 1.1, ConnectionBurst: 1}})
	ctx := within(t)
	connect := func(from string) net.Conn {
		t.Helper()
		conn, err := dialer(from).DialContext(ctx, "tcp", in.address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		if deadline, ok := ctx.Deadline(); ok {
			if err := conn.SetDeadline(deadline); err != nil {
				t.Fatal(err)
			}
		}
		return conn
	}
	// served reports whether the server has read what was said and has acknowledged it.
	served := func(conn net.Conn) bool {
		if _, err := io.WriteString(conn, http2Preface+string(http2Frame(http2Settings, nil))); err != nil {
			return false
		}
		for {
			head := make([]byte, 9)
			if _, err := io.ReadFull(conn, head); err != nil {
				return false
			}
			const acknowledged = 1
			if head[3] == http2Settings && head[4] == acknowledged {
				return true
			}
			length := int64(head[0])<<16 | int64(head[1])<<8 | int64(head[2])
			if _, err := io.CopyN(io.Discard, conn, length); err != nil {
				return false
			}
		}
	}
	before := in.server.Usage().Connections
	first, second, third, fourth := connect(host(2)), connect(host(2)), connect(host(2)), connect(host(2))
	if served(fourth) {
		t.Error("a connection is served whose turn is more than two seconds away")
	}
	in.awaitUsage(ctx, t, "it holds no place", func(u quota.Usage) bool { return u.Connections == before+3 })
	if !served(first) {
		t.Error("the first connection is not served")
	}
	if !served(connect(host(3))) {
		t.Error("another host is hindered")
	}
	if !served(second) {
		t.Error("a connection that came soon after is not served")
	}
	// One that is closed while it waits is gone.
	if err := third.Close(); err != nil {
		t.Fatal(err)
	}
	in.awaitUsage(ctx, t, "only those that are served are left", func(u quota.Usage) bool { return u.Connections == before+3 })
}
