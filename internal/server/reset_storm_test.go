package server_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/server/quota"
	"github.com/fanoutd/fanoutd/test/poll"
	"github.com/fanoutd/fanoutd/test/resetstorm"
)

// dialRaw connects without gRPC. The test fails if it waits longer than poll.Patience for the connection.
func dialRaw(ctx context.Context, t *testing.T, address string) net.Conn {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.SetDeadline(time.Now().Add(poll.Patience)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// A connection that opens streams and gives them up at once is closed with
// ENHANCE_YOUR_CALM, however it gives them up. Other connections of the same host are not.
func TestConnectionsThatAbandonStreamsAreClosed(t *testing.T) {
	in := start(t, settings{limits: quota.Limits{ResetRate: 50}})
	ctx := within(t)
	in.awaitLoaded(ctx, t)
	w := in.watch(ctx, t, &fanoutv1.WatchRequest{Resource: config, Begin: fromNow()})
	w.next(fanoutv1.WatchResponse_KIND_BOOKMARK)
	headers := requestHeaders(fanoutv1.FanoutService_Watch_FullMethodName)
	soon := append(requestHeaders(fanoutv1.FanoutService_Watch_FullMethodName), hpack.HeaderField{Name: "grpc-timeout", Value: "1m"})
	for name, c := range map[string]struct {
		headers []hpack.HeaderField
		giveUp  resetstorm.GiveUp
	}{
		"the client resets the stream":                 {headers, resetstorm.Reset},
		"the client makes the server reset the stream": {headers, resetstorm.Violate},
		"the deadline passes after a millisecond":      {soon, resetstorm.Wait},
	} {
		bye := resetstorm.Run(t, dialRaw(ctx, t, in.address), c.headers, c.giveUp)
		if bye == nil || bye.ErrCode != http2.ErrCodeEnhanceYourCalm || !strings.Contains(string(bye.DebugData()), "max-reset-rate") {
			t.Errorf("%s: got %v, want GOAWAY with ENHANCE_YOUR_CALM", name, bye)
		}
	}
	if n := in.server.Usage().RefusedConnections[quota.MaxResetRate]; n != 3 {
		t.Errorf("got %d connections closed, want 3", n)
	}
	w.wantEvents(added("a", "1", in.put(ctx, t, config, "a", "1")))
}

// Requests that the server refuses at once are not abandoned by their client.
func TestRefusedRequestsAreNotAbandoned(t *testing.T) {
	in := start(t, settings{limits: quota.Limits{ResetRate: 5}})
	ctx := within(t)
	conn := dial(t, in.address)
	for range 100 {
		for method, want := range map[string]codes.Code{
			"/fanout.v1.FanoutService/Unknown":          codes.Unimplemented,
			"/unknown.Service/Get":                      codes.Unimplemented,
			fanoutv1.FanoutService_Get_FullMethodName:   codes.InvalidArgument,
			fanoutv1.FanoutService_Watch_FullMethodName: codes.InvalidArgument,
		} {
			stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, method)
			if err == nil {
				err = stream.SendMsg(&fanoutv1.GetRequest{})
			}
			if err == nil {
				err = stream.CloseSend()
			}
			if err == nil {
				err = stream.RecvMsg(&fanoutv1.GetResponse{})
			}
			if status.Code(err) != want {
				t.Fatalf("%s: got %v, want %v", method, err, want)
			}
		}
	}
	if n := in.server.Usage().RefusedConnections[quota.MaxResetRate]; n != 0 {
		t.Errorf("got %d connections closed, want none", n)
	}
}
