package transport

// This file tests assumptions about grpc-go that grpc-go does not promise. Run it after an upgrade
// of grpc-go, before the rest of the suite:
//
//	go test -run TestGRPC ./internal/server/transport ./internal/admin
//
// If a test fails, change the code that its comment names.

import (
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
	"google.golang.org/grpc/test/bufconn"

	"github.com/fanoutd/fanoutd/internal/server/frames"
)

const (
	writeQuota  = 64 << 10 // a send blocks when this many bytes of its stream wait to be written
	windowBytes = 64 << 10 // the flow-control window of the client's streams
)

// bytesCodec sends and receives buffers as they are.
type bytesCodec struct{ encoding.CodecV2 }

func (bytesCodec) Marshal(v any) (mem.BufferSlice, error) { return v.(mem.BufferSlice), nil }

func (bytesCodec) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}

func (bytesCodec) Name() string { return "bytes" }

// message returns a message of this size, with more buffers at its end.
func message(size int, more ...mem.Buffer) mem.BufferSlice {
	return append(mem.BufferSlice{mem.SliceBuffer(make([]byte, size))}, more...)
}

// counted is an empty buffer that counts its references, like all buffers of gRPC. The first
// reference belongs to gRPC.
type counted struct {
	mem.Buffer
	references atomic.Int32
}

func newCounted() *counted {
	c := &counted{Buffer: mem.SliceBuffer(nil)}
	c.references.Store(1)
	return c
}

func (c *counted) Ref() { c.references.Add(1) }

func (c *counted) Free() { c.references.Add(-1) }

// connect serves one streaming method, and returns a function that dials it. The server and the
// connections end with the test.
func connect(t *testing.T, handler grpc.StreamHandler, options ...grpc.ServerOption) (dial func() *grpc.ClientConn) {
	t.Helper()
	listener := bufconn.Listen(1 << 20)
	s := grpc.NewServer(append(options, grpc.ForceServerCodecV2(bytesCodec{}))...)
	s.RegisterService(&grpc.ServiceDesc{
		ServiceName: "test", Streams: []grpc.StreamDesc{{StreamName: "Stream", Handler: handler, ServerStreams: true, ClientStreams: true}},
	}, nil)
	served := make(chan error, 1)
	go func() { served <- s.Serve(listener) }()
	var conns []*grpc.ClientConn
	t.Cleanup(func() {
		for _, conn := range conns {
			_ = conn.Close()
		}
		s.Stop()
		<-served
	})
	return func() *grpc.ClientConn {
		conn, err := grpc.NewClient("passthrough:///test",
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }),
			grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithDefaultCallOptions(grpc.ForceCodecV2(bytesCodec{}), grpc.MaxCallRecvMsgSize(1<<30)),
			grpc.WithStaticStreamWindowSize(windowBytes), grpc.WithStaticConnWindowSize(1<<20))
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, conn)
		return conn
	}
}

// open begins a stream.
func open(t *testing.T, conn *grpc.ClientConn) grpc.ClientStream {
	t.Helper()
	stream, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, "/test/Stream")
	if err != nil {
		t.Fatal(err)
	}
	return stream
}

// gRPC frees an empty buffer at the end of a message after it has written the message. The write
// fence of a watch depends on it.
func TestGRPCFreesTrailingEmptyBuffersWhenTheyAreWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		small, large := newCounted(), newCounted()
		sent := make(chan error, 1)
		stream := open(t, connect(t, func(_ any, s grpc.ServerStream) error {
			if err := s.SendMsg(message(100, small)); err != nil {
				return err
			}
			go func() { sent <- s.SendMsg(message(2*windowBytes, large)) }()
			<-s.Context().Done()
			return nil
		})())
		synctest.Wait()
		if n := small.references.Load(); n != 0 {
			t.Errorf("got %d references to the buffer of a written message, want 0", n)
		}
		if n := large.references.Load(); n == 0 {
			t.Error("got no references to the buffer of a message that waits for the client")
		}
		for range 2 {
			if err := stream.RecvMsg(new([]byte)); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if n := large.references.Load(); n != 0 {
			t.Errorf("got %d references after the client has read the message, want 0", n)
		}
		if err := <-sent; err != nil {
			t.Error(err)
		}
	})
}

// The context that a tap returns is the parent of the stream's context. The handler sees its
// values, and its end unblocks a send that waits for the client. The stream context of package
// rpc depends on it.
func TestGRPCTapContextIsTheStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		var cancel context.CancelFunc
		found, ended := make(chan any, 1), make(chan error, 1)
		stream := open(t, connect(t, func(_ any, s grpc.ServerStream) error {
			found <- s.Context().Value(key{})
			err := s.SendMsg(message(windowBytes + 2*writeQuota))
			if err == nil {
				err = s.SendMsg(message(1))
			}
			ended <- err
			return err
		}, grpc.InTapHandle(func(ctx context.Context, _ *tap.Info) (context.Context, error) {
			ctx, cancel = context.WithCancel(context.WithValue(ctx, key{}, "of the tap"))
			return ctx, nil
		}))())
		if got := <-found; got != "of the tap" {
			t.Errorf("got value %v in the context of the handler, want that of the tap", got)
		}
		synctest.Wait()
		select {
		case err := <-ended:
			t.Fatalf("got %v from the send, want it to block", err)
		default:
		}
		cancel()
		if err := <-ended; status.Code(err) != codes.Canceled {
			t.Errorf("got %v from the send, want Canceled", err)
		}
		_ = stream
	})
}

// All streams of a connection have the same *peer.Peer, and those of two connections have
// different ones. The send queues of watches depend on it.
func TestGRPCHasOnePeerPerConnection(t *testing.T) {
	peers := make(chan *peer.Peer, 1)
	dial := connect(t, func(_ any, s grpc.ServerStream) error {
		p, _ := peer.FromContext(s.Context())
		peers <- p
		return nil
	})
	one, other := dial(), dial()
	of := func(conn *grpc.ClientConn) *peer.Peer {
		open(t, conn)
		return <-peers
	}
	first, second, third := of(one), of(one), of(other)
	if first == nil || first != second {
		t.Errorf("got peers %p and %p of one connection, want the same", first, second)
	}
	if first == third {
		t.Error("got the same peer for two connections")
	}
}

// A send does not block while less than 64 KiB of its stream wait to be written. Workers
// that send to watches depend on it.
func TestGRPCSendsBelow64KiBWithoutBlocking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 4<<10 - prefixBytes
		var sent atomic.Int64
		stream := open(t, connect(t, func(_ any, s grpc.ServerStream) error {
			for {
				if err := s.SendMsg(message(size)); err != nil {
					return nil
				}
				sent.Add(size + prefixBytes)
			}
		})())
		synctest.Wait() // the client does not read, so the window and the quota are used up
		if got, want := sent.Load(), int64(windowBytes+writeQuota); got < want {
			t.Errorf("got %d bytes before a send blocked, want at least %d", got, want)
		} else if got > want+8<<10 {
			t.Errorf("got %d bytes before a send blocked, want about %d: the quota has grown", got, want)
		}
		_ = stream
	})
}

const prefixBytes = 5 // before each message

// gRPC returns a buffer to its pool if it has more than 1 KiB of capacity, and does not
// count the references of smaller ones. The buffer leases of package grpcmsg depend on it.
func TestGRPCPoolsBuffersAbove1KiB(t *testing.T) {
	const threshold = 1 << 10
	for size, want := range map[int]int32{threshold: 0, threshold + 1: 1} {
		pool := &countingPool{}
		stream := open(t, connect(t, func(_ any, s grpc.ServerStream) error {
			return s.SendMsg(mem.BufferSlice{mem.NewBuffer(new(make([]byte, size)), pool)})
		})())
		if err := stream.RecvMsg(new([]byte)); err != nil {
			t.Fatal(err)
		}
		if err := stream.RecvMsg(new([]byte)); status.Code(err) != codes.Unknown && err == nil {
			t.Error("got another message, want the end of the stream")
		}
		if got := pool.put.Load(); got != want {
			t.Errorf("buffer of %d bytes: got %d returns to the pool, want %d", size, got, want)
		}
		if below := mem.IsBelowBufferPoolingThreshold(size); below != (want == 0) {
			t.Errorf("IsBelowBufferPoolingThreshold(%d): got %v, want %v", size, below, want == 0)
		}
	}
}

// countingPool counts the buffers that are returned to it.
type countingPool struct{ put atomic.Int32 }

func (*countingPool) Get(n int) *[]byte { return new(make([]byte, n)) }

func (p *countingPool) Put(*[]byte) { p.put.Add(1) }

// If RecvMsg fails, gRPC sends its own status to the client. The error of the handler reaches only
// the server's log. The wrappers of RecvMsg in package rpc depend on it.
func TestGRPCAnswersFailedReadsItself(t *testing.T) {
	stream := open(t, connect(t, func(_ any, s grpc.ServerStream) error {
		if err := s.RecvMsg(new([]byte)); err == nil {
			return nil
		}
		return status.Error(codes.DataLoss, "from the handler")
	}, grpc.MaxRecvMsgSize(10))())
	if err := stream.SendMsg(message(100)); err != nil {
		t.Fatal(err)
	}
	if err := stream.RecvMsg(new([]byte)); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("got %v, want the status of gRPC, ResourceExhausted", err)
	}
}

// goAwayServer serves streams whose handler sends each message that it receives back, after a
// GOAWAY if the message is "go away".
func goAwayServer(t *testing.T) (dial func() *grpc.ClientConn, peers chan *peer.Peer) {
	t.Helper()
	peers = make(chan *peer.Peer, 1)
	return connect(t, func(_ any, s grpc.ServerStream) error {
		p, _ := peer.FromContext(s.Context())
		peers <- p
		for {
			var m []byte
			if err := s.RecvMsg(&m); err != nil {
				return nil
			}
			if string(m) == "go away" {
				FramesOf(s.Context()).GoAway()
			}
			if err := s.SendMsg(mem.BufferSlice{mem.SliceBuffer(m)}); err != nil {
				return nil
			}
		}
	}, grpc.Creds(newCredentials(nil, func(string) frames.Budget { return nil }, nil))), peers
}

// echo sends a message and receives it back.
func echo(t *testing.T, stream grpc.ClientStream, text string) {
	t.Helper()
	var got []byte
	err := stream.SendMsg(mem.BufferSlice{mem.SliceBuffer([]byte(text))})
	if err == nil {
		err = stream.RecvMsg(&got)
	}
	if err != nil || string(got) != text {
		t.Fatalf("got %q, %v back, want %q", got, err, text)
	}
}

// After frames.Conn.GoAway, a client opens its next streams on another connection, even those
// that it opens as soon as it gets the next message. Its open streams continue. The drain of a
// server depends on it.
func TestGRPCClientLeavesAConnectionAfterGoAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dial, peers := goAwayServer(t)
		conn := dial()
		stream := open(t, conn)
		first := <-peers
		echo(t, stream, "before")
		echo(t, stream, "go away")
		other := open(t, conn)
		second := <-peers
		if first == second {
			t.Error("got a new stream on the same connection after a GOAWAY")
		}
		echo(t, stream, "afterwards")
		echo(t, other, "here")
		echo(t, stream, "go away") // has no effect
		echo(t, stream, "and again")
		if err := stream.CloseSend(); err != nil {
			t.Fatal(err)
		}
		if err := stream.RecvMsg(new([]byte)); status.Code(err) != codes.OK && !errors.Is(err, io.EOF) {
			t.Errorf("got %v at the end of the stream", err)
		}
		synctest.Wait()
		// The client closes the connection after its last stream.
		if _, err := first.AuthInfo.(ConnInfo).Frames.Write([]byte{0}); err == nil {
			t.Error("the connection is still open after its last stream")
		}
	})
}
