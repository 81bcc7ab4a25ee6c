package hostile

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// attack is a crowd of clients from hosts of their own.
type attack struct {
	address string
	size    int          // how many streams, or connections
	begun   atomic.Int64 // what has been begun
	refused atomic.Int64 // what the server did not want
}

// dial connects from one of the hosts of the attackers, which are a hundred.
func (a *attack) dial(t *testing.T, i int, more ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(a.address, append(more,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return from(i).DialContext(ctx, "tcp", address)
		}))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func from(i int) *net.Dialer {
	return &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 2, byte(1+i%100))}}
}

// perConnection is how many streams the attackers have on a connection.
const perConnection = 100

// neverRead opens watches of everything, and reads nothing: the window of each stream
// and of each connection is as small as HTTP/2 allows gRPC to make it.
func (a *attack) neverRead(ctx context.Context, t *testing.T) {
	t.Helper()
	const window = 64 << 10
	for i := range a.size / perConnection {
		reads := fanoutv1.NewFanoutServiceClient(a.dial(t, i, grpc.WithStaticStreamWindowSize(window), grpc.WithStaticConnWindowSize(window)))
		for range perConnection {
			if _, err := reads.Watch(ctx, &fanoutv1.WatchRequest{Resource: resource}); err != nil {
				t.Fatal(err)
			}
			a.begun.Add(1)
		}
	}
}

// giantSelectors opens watches with the largest selectors that are allowed, each with
// another one that shows only with its last requirement that it picks nothing, and
// tries larger ones. They are a tenth of the attack: what no two have in common costs
// something with each write.
func (a *attack) giantSelectors(ctx context.Context, t *testing.T) {
	t.Helper()
	const most = 128
	for i := range max(a.size/10/perConnection, 1) {
		reads := fanoutv1.NewFanoutServiceClient(a.dial(t, i))
		for j := range perConnection {
			ask := func(requirements int) fanoutv1.FanoutService_WatchClient {
				var all []string
				for n := range requirements - 1 {
					all = append(all, fmt.Sprintf("a%d!=%d-%d", n, i, j))
				}
				all = append(all, "z")
				stream, err := reads.Watch(ctx, &fanoutv1.WatchRequest{Resource: resource, LabelSelector: strings.Join(all, ",")})
				if err != nil {
					t.Fatal(err)
				}
				a.begun.Add(1)
				return stream
			}
			ask(most)
			if _, err := ask(most + 1).Recv(); err != nil {
				a.refused.Add(1)
			}
		}
	}
}

// comeAndGo connects, watches and leaves, again and again, a few at once.
func (a *attack) comeAndGo(ctx context.Context, t *testing.T) {
	for i := 0; ctx.Err() == nil; i++ {
		conn := a.dial(t, i)
		stream, err := fanoutv1.NewFanoutServiceClient(conn).Watch(ctx, &fanoutv1.WatchRequest{Resource: resource})
		if err == nil {
			_, err = stream.Recv()
		}
		if a.begun.Add(1); err != nil {
			a.refused.Add(1)
		}
		_ = conn.Close()
	}
}

// sayLittle opens connections: some say nothing, some only hello, some begin a
// request and do not go on.
func (a *attack) sayLittle(ctx context.Context, t *testing.T) {
	t.Helper()
	for i := range a.size {
		conn, err := from(i).DialContext(ctx, "tcp", a.address)
		if err != nil {
			t.Fatal(err)
		}
		a.begun.Add(1)
		t.Cleanup(func() { _ = conn.Close() })
		if i%3 == 0 {
			continue
		}
		_, err = io.WriteString(conn, http2.ClientPreface)
		if err == nil {
			framer := http2.NewFramer(conn, conn)
			if err = framer.WriteSettings(); err == nil && i%3 == 2 {
				// The headers are not complete, and what is there means nothing.
				err = framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0x83}})
			}
		}
		if err != nil {
			a.refused.Add(1)
		}
	}
}

// wait is for how long a test waits for anything.
const wait = 2 * time.Minute
