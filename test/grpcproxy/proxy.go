// Package grpcproxy is a gRPC proxy for tests. It limits the messages that it sends to clients,
// as proxies do, and counts the requests and bytes that pass.
package grpcproxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"path"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
)

// Config configures a proxy.
type Config struct {
	Target string // address of the server

	// MaxSend is the size of the largest message that the proxy sends to a client. Larger ones
	// end the request with RESOURCE_EXHAUSTED. Default: no limit.
	MaxSend int

	// Admit, if not nil, is called at the start of each request with the name of the method. The
	// request goes on when Admit returns nil, and otherwise ends with the error.
	Admit func(ctx context.Context, method string) error

	// Options are more options of the server that clients see.
	Options []grpc.ServerOption
}

// Proxy forwards gRPC requests of every method.
type Proxy struct {
	Address string
	cfg     Config
	server  *grpc.ClientConn

	mu       sync.Mutex
	requests map[string]int   // guarded by mu: messages of clients by method
	bytes    map[string]int64 // guarded by mu: bytes that were sent to clients by method
}

// Start starts a proxy. It stops when the test ends.
func Start(t testing.TB, cfg Config) *Proxy {
	t.Helper()
	if cfg.MaxSend == 0 {
		cfg.MaxSend = math.MaxInt32
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server, err := grpc.NewClient("passthrough:///"+cfg.Target, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(rawCodec{}), grpc.MaxCallRecvMsgSize(math.MaxInt32)))
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{Address: listener.Addr().String(), cfg: cfg, server: server, requests: map[string]int{}, bytes: map[string]int64{}}
	front := grpc.NewServer(append([]grpc.ServerOption{
		grpc.ForceServerCodecV2(rawCodec{}), grpc.MaxSendMsgSize(cfg.MaxSend),
		grpc.MaxRecvMsgSize(math.MaxInt32), grpc.UnknownServiceHandler(p.forward),
	}, cfg.Options...)...)
	var serving sync.WaitGroup
	serving.Go(func() { _ = front.Serve(listener) }) // it returns when front stops
	t.Cleanup(func() {
		front.Stop()
		serving.Wait()
		server.Close()
	})
	return p
}

// Requests returns how many messages clients have sent to a method, for example "Range".
func (p *Proxy) Requests(method string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.requests[method]
}

// Bytes returns how many bytes the proxy has sent to clients of a method.
func (p *Proxy) Bytes(method string) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.bytes[method]
}

// forward copies the messages of a request both ways until the server ends it.
func (p *Proxy) forward(_ any, client grpc.ServerStream) error {
	name, _ := grpc.MethodFromServerStream(client)
	method := path.Base(name)
	if p.cfg.Admit != nil {
		if err := p.cfg.Admit(client.Context(), method); err != nil {
			return err
		}
	}
	incoming, _ := metadata.FromIncomingContext(client.Context())
	ctx, cancel := context.WithCancel(metadata.NewOutgoingContext(client.Context(), incoming))
	server, err := p.server.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, name)
	if err != nil {
		cancel()
		return err
	}
	var sending sync.WaitGroup
	defer sending.Wait()
	defer cancel()
	sending.Go(func() { p.sendRequests(server, client, method) })
	for {
		var m mem.BufferSlice
		if err := server.RecvMsg(&m); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		size := m.Len()
		if err := client.SendMsg(&m); err != nil {
			return err
		}
		p.mu.Lock()
		p.bytes[method] += int64(size)
		p.mu.Unlock()
	}
}

// sendRequests copies the messages of a client. It ends with the request, because the
// client's stream then fails.
func (p *Proxy) sendRequests(server grpc.ClientStream, client grpc.ServerStream, method string) {
	for {
		var m mem.BufferSlice
		if err := client.RecvMsg(&m); err != nil {
			_ = server.CloseSend() // it always returns nil
			return
		}
		p.mu.Lock()
		p.requests[method]++
		p.mu.Unlock()
		if server.SendMsg(&m) != nil {
			return // the other direction gets the error
		}
	}
}

// rawCodec leaves messages as they are.
type rawCodec struct{}

// Marshal implements encoding.CodecV2.
func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	m, ok := v.(*mem.BufferSlice)
	if !ok {
		return nil, fmt.Errorf("message is a %T, want bytes", v)
	}
	return *m, nil
}

// Unmarshal implements encoding.CodecV2.
func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	m, ok := v.(*mem.BufferSlice)
	if !ok {
		return fmt.Errorf("message is a %T, want bytes", v)
	}
	data.Ref()
	*m = data
	return nil
}

// Name implements encoding.CodecV2.
func (rawCodec) Name() string { return "proto" }
