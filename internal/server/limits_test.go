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
	"google.golang.org/protobuf/proto"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/access"
	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/server"
	"github.com/fanoutd/fanoutd/internal/server/apierr"
	"github.com/fanoutd/fanoutd/internal/server/quota"
	"github.com/fanoutd/fanoutd/test/poll"
	"github.com/fanoutd/fanoutd/test/race"
)

// exhausted is the refusal of a request that exceeds a limit.
func exhausted(limit apierr.Limit, metadata map[string]string) refusal {
	metadata["limit_name"] = string(limit)
	return refusal{Code: codes.ResourceExhausted, Reason: limit.Reason(), Metadata: metadata, Retry: limit != apierr.MaxRequestSize}
}

// host returns an address of this machine, which the server takes for the nth host.
func host(n int) string { return fmt.Sprintf("127.0.0.%d", n) }

// dialer returns a dialer that connects from a host.
func dialer(from string) *net.Dialer {
	return &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
}

// dialFrom returns a gRPC connection from a host.
func (in *instance) dialFrom(t *testing.T, from string, more ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	return dial(t, in.address, append(more, grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
		return dialer(from).DialContext(ctx, "tcp", address)
	}))...)
}

// awaitUsage waits until the usage of the limits satisfies the condition.
func (in *instance) awaitUsage(ctx context.Context, t *testing.T, what string, is func(quota.Usage) bool) {
	t.Helper()
	if !poll.Wait(ctx, func() bool { return is(in.server.Usage()) }) {
		t.Fatalf("timed out waiting until %s; got usage %+v", what, in.server.Usage())
	}
}

// wantNoUsage waits until clients hold nothing except connections.
func (in *instance) wantNoUsage(ctx context.Context, t *testing.T) {
	t.Helper()
	in.awaitUsage(ctx, t, "clients hold nothing", func(u quota.Usage) bool {
		collectGarbage(u)
		u.Connections, u.Refused, u.MaxConnections, u.RefusedConnections, u.TurnWaits = 0, nil, 0, nil, 0
		return cmp.Equal(u, quota.Usage{})
	})
}

// collectGarbage returns the memory of lists whose connection broke.
func collectGarbage(u quota.Usage) {
	if u.ListBytes > 0 {
		runtime.GC()
	}
}

// opened starts a watch. It returns a function that ends the watch, or the refusal.
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
	wantRefusal(t, err, exhausted(apierr.MaxWatchersPerClient, map[string]string{"limit": "2", "client": host(2)}))

	end = append(end, mustOpen(other)) // another client still has room
	_, err = opened(ctx, other, req)
	wantRefusal(t, err, exhausted(apierr.MaxWatchers, map[string]string{"limit": "3"}))

	end[0]()
	in.awaitUsage(ctx, t, "a watch has ended", func(u quota.Usage) bool { return u.Watchers == 2 })
	end = append(end, mustOpen(other))
	u := in.server.Usage()
	if u.Watchers != 3 || u.WatchClients != 2 {
		t.Errorf("got usage %+v, want 3 watchers of 2 clients", u)
	}
	if u.Refused[apierr.MaxWatchers] != 1 || u.Refused[apierr.MaxWatchersPerClient] != 1 {
		t.Errorf("got refusals %v, want one for each reason", u.Refused)
	}
	for _, end := range end {
		end()
	}
	in.wantNoUsage(ctx, t)
}

// A watch that is refused for another reason does not count against the limits either.
func TestRefusedWatchesHoldNothing(t *testing.T) {
	in := start(t, settings{limits: quota.Limits{Watchers: 1, WatchersPerClient: 1, Snapshots: 1}})
	ctx := within(t)
	in.awaitLoaded(ctx, t)
	for range 3 {
		_, err := opened(ctx, in.reads, &fanoutv1.WatchRequest{Resource: config, Begin: after(&fanoutv1.Position{Epoch: in.epoch(ctx, t), Revision: 1 << 40})})
		if refusalIn(t, err).Reason != apierr.ReasonRevisionInFuture {
			t.Fatal(err)
		}
	}
	in.wantNoUsage(ctx, t)
}

// someObjects writes count objects of 64 KiB.
func (in *instance) someObjects(ctx context.Context, t *testing.T, count int) {
	t.Helper()
	for i := range count {
		in.put(ctx, t, config, fmt.Sprintf("%04d", i), strings.Repeat("x", 64<<10))
	}
}

const narrow = 1 << 10 // a flow-control window smaller than any snapshot

// A client that does not read its snapshot keeps the snapshot slot only until the lease
// ends.
func TestClientsThatStopReadingLoseTheirSnapshotSlot(t *testing.T) {
	in := start(t, settings{
		limits: quota.Limits{Snapshots: 1}, messageBytes: 128 << 10,
		prepare: func(s *server.Server) { s.SetSlotTimes(poll.Patience, 100*time.Millisecond) },
	})
	ctx := within(t)
	in.someObjects(ctx, t, 8)
	stuck := openRaw(ctx, t, in.address, &fanoutv1.WatchRequest{Resource: config}, narrow)
	stuck.readFrames()
	in.awaitUsage(ctx, t, "a snapshot is being sent", func(u quota.Usage) bool { return u.Snapshots == 1 })

	w := in.watch(ctx, t, &fanoutv1.WatchRequest{Resource: config})
	if events, _ := w.catchUp(fanoutv1.WatchResponse_CATCH_UP_RESET); len(events) != 8 {
		t.Errorf("got a snapshot of %d objects for the second watcher, want 8", len(events))
	}
	// When the first client reads again, its snapshot continues.
	stuck.grant(t, 1<<30)
	all, err := stuck.await(ctx, t, "the watcher has caught up", func(s *rawStream) bool { return synced(s.all) })
	if err != nil {
		t.Fatal(err)
	}
	if events := eventsOf(all); len(events) != 8 {
		t.Errorf("got a snapshot of %d objects for the stuck watcher, want 8", len(events))
	}
	in.awaitUsage(ctx, t, "no snapshot is being sent", func(u quota.Usage) bool { return u.Snapshots == 0 && u.SnapshotsWaiting == 0 })
}

// A watch that does not get a snapshot slot in time is refused and may retry. Watches
// that need only events need no slot.
func TestWatchesWithoutASnapshotSlotAreRefused(t *testing.T) {
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
	in.awaitUsage(ctx, t, "a snapshot is being sent", func(u quota.Usage) bool { return u.Snapshots == 1 })

	_, err := opened(ctx, in.reads, &fanoutv1.WatchRequest{Resource: config})
	wantRefusal(t, err, exhausted(apierr.MaxSnapshots, map[string]string{"limit": "1"}))
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
	in.awaitUsage(ctx, t, "the slot is free", func(u quota.Usage) bool { return u.Snapshots == 0 })
	in.watch(ctx, t, &fanoutv1.WatchRequest{Resource: config}).catchUp(fanoutv1.WatchResponse_CATCH_UP_RESET)
}

// With only two snapshot slots, all watchers receive their snapshots although some clients
// do not read.
func TestAllWatchersGetTheirSnapshots(t *testing.T) {
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
		prepare: func(s *server.Server) { s.SetSlotTimes(poll.Patience, 10*time.Millisecond) },
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
					t.Errorf("got a snapshot of %d objects, want %d", n, objects)
				}
			})
		}
	}
	group.Wait()
	leave()
}

// openList sends a List request and does not read the response.
func openList(ctx context.Context, t *testing.T, conn *grpc.ClientConn) {
	t.Helper()
	openUnread(ctx, t, conn, fanoutv1.FanoutService_List_FullMethodName, &fanoutv1.ListRequest{Resource: config})
}

// openUnread sends a request and does not read the response.
func openUnread(ctx context.Context, t *testing.T, conn *grpc.ClientConn, method string, req proto.Message) {
	t.Helper()
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, method)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(stream.SendMsg(req), stream.CloseSend()); err != nil {
		t.Fatal(err)
	}
}

// A list that the client does not read holds memory until its stream or connection ends.
// Then all of that memory is free again.
func TestUnreadListsHoldMemoryUntilTheyEnd(t *testing.T) {
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
			// The server reserves up to three MiB for a second list, and with the first one
			// that exceeds the client's share.
			err := list(fanoutv1.NewFanoutServiceClient(in.dialFrom(t, host(2))))
			wantRefusal(t, err, exhausted(apierr.MaxListMemory, map[string]string{"limit": fmt.Sprint(5 << 20)}))
			if err := list(fanoutv1.NewFanoutServiceClient(in.dialFrom(t, host(3)))); err != nil {
				t.Errorf("list of another client: %v", err)
			}
			end(cancel, conn)
			in.wantNoUsage(ctx, t)
		})
	}
	// Neither lists that are read nor those that are refused hold memory afterwards.
	for range 10 {
		if err := list(in.reads); err != nil {
			t.Error(err)
		}
		_, err := in.reads.List(ctx, &fanoutv1.ListRequest{Resource: config, Consistency: exactRevision(1 << 40)})
		if err == nil {
			t.Error("got a list of a future revision, want an error")
		}
	}
	in.wantNoUsage(ctx, t)
}

// A request whose handler panics releases everything that it held.
func TestAPanicReleasesWhatTheRequestHeld(t *testing.T) {
	in := start(t, settings{
		limits: quota.Limits{ListBytes: 8 << 20, Watchers: 2, Snapshots: 1}, encoder: explodingEncoder{},
		window: cacher.WindowLimits{MaxChanges: 1},
	})
	ctx := within(t)
	old := in.put(ctx, t, config, "a", "1")
	for range 3 {
		in.put(ctx, t, config, "bomb", "1")
	}
	in.list(ctx, t, &fanoutv1.ListRequest{Resource: config}, nothing) // the window no longer has the first revision
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
		t.Error("the store was not asked for history, so the test proves nothing")
	}
	_, err = in.reads.Watch(ctx, &fanoutv1.WatchRequest{Resource: config})
	if err != nil {
		t.Fatal(err)
	}
	in.lines.await(ctx, t, line{"msg": "a handler panicked", "method": "/fanout.v1.FanoutService/Watch"})
	in.wantNoUsage(ctx, t)
}

func TestRequestsAreLimitedInSize(t *testing.T) {
	const limit = 64 << 10
	in := start(t, settings{limits: quota.Limits{RequestBytes: limit}})
	ctx := within(t)
	in.put(ctx, t, config, "a", strings.Repeat("x", limit-100))
	_, err := in.writes.Put(ctx, &fanoutv1.PutRequest{Resource: config, Put: putText("a", strings.Repeat("x", limit))})
	refused := refusalIn(t, err)
	size := refused.Metadata["size"]
	if diff := cmp.Diff(exhausted(apierr.MaxRequestSize, map[string]string{"limit": fmt.Sprint(limit), "size": size}), refused); diff != "" {
		t.Error(diff)
	}
	_, err = opened(ctx, in.reads, &fanoutv1.WatchRequest{Resource: strings.Repeat("x", limit)})
	if got := refusalIn(t, err).Reason; got != apierr.ReasonRequestTooLarge {
		t.Errorf("large watch: got reason %v, want %v", got, apierr.ReasonRequestTooLarge)
	}
	_, err = in.writes.Put(ctx, &fanoutv1.PutRequest{Resource: config, Put: putText("a", strings.Repeat("x", 2*limit))})
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("request of twice the size: got %v, want RESOURCE_EXHAUSTED", err)
	}
}

func TestHeadersAreLimitedInSize(t *testing.T) {
	in := start(t, settings{})
	ctx := within(t)
	in.awaitLoaded(ctx, t)
	many := metadata.AppendToOutgoingContext(ctx, "x-much", strings.Repeat("x", 100<<10))
	if _, err := in.reads.List(many, &fanoutv1.ListRequest{Resource: config}); err == nil {
		t.Error("the server accepted 100 KiB of headers, want an error")
	}
	some := metadata.AppendToOutgoingContext(ctx, "x-some", strings.Repeat("x", 32<<10))
	if _, err := in.reads.List(some, &fanoutv1.ListRequest{Resource: config}); err != nil {
		t.Error(err)
	}
}

// A client that has reached the limit of streams on its connection waits until one of them
// ends.
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
	// A stream on another connection does not wait. Meanwhile the third one has not begun.
	if _, err := opened(ctx, fanoutv1.NewFanoutServiceClient(dial(t, in.address)), req); err != nil {
		t.Fatal(err)
	}
	if n := in.server.Usage().Watchers; n != 3 {
		t.Errorf("got %d watchers, want 3", n)
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
	in.awaitLoaded(ctx, t) // through a connection from host 1, which counts
	// connect returns a connection, or nil if the server has closed it.
	connect := func(from string) net.Conn {
		t.Helper()
		conn, err := dialer(from).DialContext(ctx, "tcp", in.address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		if err := conn.SetDeadline(time.Now().Add(poll.Patience)); err != nil {
			t.Fatal(err)
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
		t.Fatal("the server closed one of the first two connections of a host")
	}
	if connect(host(2)) != nil {
		t.Error("the server accepted a third connection of a host, want it closed")
	}
	if connect(host(3)) == nil {
		t.Error("the server closed the connection of another host")
	}
	if connect(host(4)) != nil {
		t.Error("the server accepted a fifth connection, want it closed")
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	in.awaitUsage(ctx, t, "the connection is gone", func(u quota.Usage) bool { return u.Connections == 3 })
	if connect(host(4)) == nil {
		t.Error("the server closed a connection although another one has ended")
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
	limited := exhausted(apierr.MaxRequestRate, map[string]string{"limit": "0.001", "client": host(2)})
	err := list(one)
	wantRefusal(t, err, limited)
	for _, detail := range status.Convert(err).Details() {
		// The rate allows one request in 1000 seconds, and the burst has just been used up.
		if d, ok := detail.(*errdetails.RetryInfo); ok && (d.GetRetryDelay().AsDuration() > 1000*time.Second || d.GetRetryDelay().AsDuration() < 900*time.Second) {
			t.Errorf("got retry delay %v, want between 900s and 1000s", d.GetRetryDelay().AsDuration())
		}
	}
	_, err = opened(ctx, fanoutv1.NewFanoutServiceClient(one), req)
	wantRefusal(t, err, limited)

	if err := list(other); err != nil && refusalIn(t, err).Reason != apierr.ReasonNotReady {
		t.Errorf("another client: %v", err)
	}
	if _, err := healthpb.NewHealthClient(one).Check(ctx, &healthpb.HealthCheckRequest{}); err != nil {
		t.Errorf("health check: %v", err)
	}
	// The server logs one line for many refusals.
	in.lines.await(ctx, t, line{"msg": "requests are refused", "level": "WARN", "reason": "RATE_LIMITED", "client": host(2)})
	if n := strings.Count(in.lines.text(), `"requests are refused"`); n != 1 {
		t.Errorf("got %d log lines about refused requests, want 1", n)
	}
}

// Requests with invalid credentials are limited to the same rate as other requests. They
// do not count against requests with valid credentials, even from the same host.
func TestRequestsWithInvalidCredentialsAreLimited(t *testing.T) {
	log := openAudit(t)
	verifier := &revocableTokens{}
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
		wantRefusal(t, get("authorization", "Basic x"), exhausted(apierr.MaxRequestRate, map[string]string{"limit": "0.001", "client": host(1)}))
	}
	stream, err := in.reads.Watch(ctx, &fanoutv1.WatchRequest{Resource: config})
	if err == nil {
		_, err = stream.Recv()
	}
	wantRefusal(t, err, exhausted(apierr.MaxRequestRate, map[string]string{"limit": "0.001", "client": host(1)}))
	if err := get("authorization", "Bearer ann"); status.Code(err) == codes.ResourceExhausted || status.Code(err) == codes.Unauthenticated {
		t.Error(err)
	}
	if got := len(log.lines(t)); got != 2 {
		t.Errorf("got %d denials in the audit log, want 2", got)
	}
}

// The gateway sends requests through the local connection on behalf of its clients. An
// answer counts against the limits until the gateway's own request ends: gRPC has
// delivered it by then, but the gateway's client may not have read it.
func TestLocalAnswersAreHeldUntilTheirRequestsEnd(t *testing.T) {
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
			t.Errorf("got %d bytes held, want at least %d", u.ListBytes, least)
		}
	}
	before := in.server.Usage().ListBytes
	got, err := reads.Get(reading, &fanoutv1.GetRequest{Resource: config, Key: list.GetObjects()[0].GetKey()})
	if err != nil || len(got.GetObject().GetText()) < 64<<10 {
		t.Fatal(got, err)
	}
	if u := in.server.Usage(); u.ListBytes < before+2*64<<10 {
		t.Errorf("got %d bytes held with an additional object, want at least %d", u.ListBytes, before+2*64<<10)
	}
	if _, err := reads.List(reading, &fanoutv1.ListRequest{Resource: "none"}); err == nil {
		t.Fatal("got a list of an unknown resource, want an error")
	}
	done()
	in.wantNoUsage(ctx, t)

	// If the client goes, the gateway may still be encoding the answer.
	answered, done := context.WithCancel(ctx)
	reading, gone := context.WithCancel(access.OnBehalf(ctx, access.Behalf{Answered: answered}))
	if _, err := reads.List(reading, &fanoutv1.ListRequest{Resource: config}); err != nil {
		t.Fatal(err)
	}
	gone()
	released := make(chan struct{})
	context.AfterFunc(reading, func() { close(released) })
	<-released
	if least, u := int64(2*8*64<<10), in.server.Usage(); u.ListBytes < least {
		t.Errorf("got %d bytes held, want at least %d", u.ListBytes, least)
	}
	done()
	in.wantNoUsage(ctx, t)
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
	mustOpen(one, "a!=1", "a!=2,b", "b,a!=2") // the last two are the same selector
	_, err := open(one, "a!=3")
	wantRefusal(t, err, exhausted(apierr.MaxSelectorsPerClient, map[string]string{"limit": "2", "client": host(2)}))
	// These do not count: selectors that the client has already, indexed ones, and none.
	mustOpen(one, "a!=1", "", "a=1", "a=2", "a=3", "a in (4)")

	mustOpen(other, "a!=1", "a!=3") // the first one is shared with the other client
	_, err = open(other, "a!=4")
	wantRefusal(t, err, exhausted(apierr.MaxSelectorsPerClient, map[string]string{"limit": "2", "client": host(3)}))
	third := fanoutv1.NewFanoutServiceClient(in.dialFrom(t, host(4)))
	_, err = open(third, "a!=4")
	wantRefusal(t, err, exhausted(apierr.MaxSelectors, map[string]string{"limit": "3"}))
	mustOpen(third, "a!=3")

	// A shared selector counts until all its watches have ended.
	all[0]()
	in.awaitUsage(ctx, t, "one watch has ended", func(u quota.Usage) bool { return u.Watchers == len(all)-1 })
	if n := in.server.Usage().Selectors; n != 3 {
		t.Errorf("got %d selectors, want 3", n)
	}
	for _, end := range all {
		end()
	}
	in.wantNoUsage(ctx, t)
	if n := in.server.Usage().Selectors; n != 0 {
		t.Errorf("got %d selectors without watches, want 0", n)
	}
}

func TestConnectionsThatComeTooFastWaitOrAreClosed(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	// The first waiting connection is served after 0.9 seconds and the second after 1.8. The
	// server closes connections that would wait for more than two seconds.
	in := start(t, settings{limits: quota.Limits{ConnectionRate: 1.1, ConnectionBurst: 1}})
	ctx := within(t)
	connect := func(from string) net.Conn {
		t.Helper()
		conn, err := dialer(from).DialContext(ctx, "tcp", in.address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		if err := conn.SetDeadline(time.Now().Add(poll.Patience)); err != nil {
			t.Fatal(err)
		}
		return conn
	}
	// served reports whether the server answers the HTTP/2 preface.
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
		t.Error("the server served the fourth connection, want it closed")
	}
	in.awaitUsage(ctx, t, "the closed connection is no longer counted", func(u quota.Usage) bool { return u.Connections == before+3 })
	if !served(first) {
		t.Error("the server closed the first connection")
	}
	if !served(connect(host(3))) {
		t.Error("the server closed the connection of another host")
	}
	if !served(second) {
		t.Error("the server closed the second connection, want it served after a delay")
	}
	// The third connection ends while it waits.
	if err := third.Close(); err != nil {
		t.Fatal(err)
	}
	in.awaitUsage(ctx, t, "only served connections are left", func(u quota.Usage) bool { return u.Connections == before+3 })
}
