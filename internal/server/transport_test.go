package server_test

import (
	"context"
	"crypto/tls"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/server"
	"github.com/fanoutd/fanoutd/test/certs"
)

// A client must open a new connection after the maximum age, so a client whose authority
// is no longer trusted cannot keep its connection forever. A watch on the old connection
// goes on.
func TestOldTLSConnectionsAreReplaced(t *testing.T) {
	authority := certs.NewAuthority(t)
	pair := authority.Issue(t, certs.Server)
	in := start(t, settings{configure: func(cfg *server.Config) {
		cfg.TLS = &tls.Config{Certificates: []tls.Certificate{pair.TLS(t)}}
		cfg.ConnectionAge = time.Millisecond
	}})
	ctx := within(t)
	var dialed atomic.Int64
	conn := dial(t, in.address,
		grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: authority.Pool()})),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			dialed.Add(1)
			return new(net.Dialer).DialContext(ctx, "tcp", address)
		}))
	in.reads, in.writes = fanoutv1.NewFanoutServiceClient(conn), fanoutv1.NewStoreServiceClient(conn)
	in.awaitLoaded(ctx, t)
	w := in.watch(ctx, t, &fanoutv1.WatchRequest{Resource: config})
	w.catchUp(fanoutv1.WatchResponse_CATCH_UP_RESET)
	for began := dialed.Load(); dialed.Load() == began; {
		if _, err := in.reads.List(ctx, &fanoutv1.ListRequest{Resource: config}); err != nil {
			t.Fatal(err)
		}
	}
	at := in.put(ctx, t, config, "a", "1")
	w.wantEvents(added("a", "1", at))
}
