package raw

import (
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/fanoutd/fanoutd/test/poll"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve runs a grpc-go server that calls the handler for each stream.
func serve(t *testing.T, handler func(request string, stream grpc.ServerStream) error) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		var request wrapperspb.StringValue
		if err := stream.RecvMsg(&request); err != nil {
			return err
		}
		return handler(request.Value, stream)
	}))
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return listener.Addr().String()
}

func dial(t *testing.T, address string) *Conn {
	t.Helper()
	c, err := Dial(t.Context(), address, Options{Buffer: 4096})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(poll.Patience)); err != nil {
		t.Fatal(err)
	}
	return c
}

// request is a StringValue of fewer than 128 bytes.
func request(s string) []byte { return append([]byte{1<<3 | 2, byte(len(s))}, s...) }

func never() bool { return false }

// A client sends more than the server allows at once, and the server gets all of it.
func TestRequestsWaitForRoom(t *testing.T) {
	const messages = 20_000
	address := serve(t, func(_ string, stream grpc.ServerStream) error {
		for range messages {
			var request wrapperspb.StringValue
			if err := stream.RecvMsg(&request); err != nil {
				return err
			}
		}
		if err := stream.SendMsg(wrapperspb.String("all")); err != nil {
			return err
		}
		<-stream.Context().Done()
		return nil
	})
	c := dial(t, address)
	if err := c.Open("/a.B/C", request("first"), false); err != nil {
		t.Fatal(err)
	}
	answered := false
	receive := func(int, []byte, int64) error {
		answered = true
		return nil
	}
	waited := 0
	next := request(strings.Repeat("x", 100))
	for range messages {
		if fits := func() bool { return c.Fits(0, next) }; !fits() {
			waited++
			if err := errors.Join(c.Flush(), c.Read(receive, fits)); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.Send(0, next); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(c.Flush(), c.Read(receive, func() bool { return answered })); err != nil {
		t.Fatal(err)
	}
	if waited == 0 {
		t.Error("the client never waited for room, so the test shows nothing")
	}
}

// Requests that exceed a frame and the windows of a grpc-go server arrive whole.
func TestLargeRequestsWaitForRoom(t *testing.T) {
	const calls, size = 20, 200_000
	sizes := make(chan int, calls)
	address := serve(t, func(request string, stream grpc.ServerStream) error {
		sizes <- len(request)
		return stream.SendMsg(wrapperspb.String("received"))
	})
	c := dial(t, address)
	encoded, err := proto.Marshal(wrapperspb.String(strings.Repeat("x", size)))
	if err != nil {
		t.Fatal(err)
	}
	for range calls {
		if err := c.Call("/a.B/C", encoded); err != nil {
			t.Fatal(err)
		}
	}
	answers := 0
	receive := func(int, []byte, int64) error {
		answers++
		return nil
	}
	if err := errors.Join(c.Flush(), c.Read(receive, func() bool { return answers == calls })); err != nil {
		t.Fatal(err)
	}
	for range calls {
		if n := <-sizes; n != size {
			t.Errorf("a request of %d bytes arrived with %d", size, n)
		}
	}
}

// The messages of a grpc-go server exceed both the default window and a frame.
func TestStreamsReceiveTheirMessagesInOrder(t *testing.T) {
	const streams, messages, size = 20, 10, 100_000
	address := serve(t, func(request string, stream grpc.ServerStream) error {
		for i := range messages {
			text := request + strings.Repeat(string(rune('a'+i)), size)
			if err := stream.SendMsg(wrapperspb.String(text)); err != nil {
				return err
			}
		}
		<-stream.Context().Done() // until the client disconnects
		return nil
	})
	c := dial(t, address)
	for i := range streams {
		if err := c.Open("/a.B/C", request(string(rune('A'+i))), true); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
	got, total := make([][]byte, streams), 0
	err := c.Read(func(stream int, message []byte, _ int64) error {
		got[stream] = append(got[stream], message[len(message)-size-1], message[len(message)-1])
		total++
		return nil
	}, func() bool { return total == streams*messages })
	if err != nil {
		t.Fatal(err)
	}
	for i := range got {
		var want []byte
		for j := range messages {
			want = append(want, byte('A'+i), byte('a'+j))
		}
		if !slices.Equal(got[i], want) {
			t.Errorf("stream %d got %q, want %q", i, got[i], want)
		}
	}
}

func TestReadReportsTheStatusOfAnEndedStream(t *testing.T) {
	address := serve(t, func(string, grpc.ServerStream) error {
		return status.Error(codes.ResourceExhausted, "enough")
	})
	c := dial(t, address)
	if err := errors.Join(c.Open("/a.B/C", request("x"), true), c.Flush()); err != nil {
		t.Fatal(err)
	}
	err := c.Read(func(int, []byte, int64) error { return nil }, never)
	ended, ok := errors.AsType[*EndedError](err)
	if !ok || ended.Stream != 0 || ended.Status != "8" || ended.Message != "enough" {
		t.Errorf("got error %v, want status 8 with message \"enough\" on stream 0", err)
	}
}

func TestReadFailsOnAClosedConnection(t *testing.T) {
	address := serve(t, func(_ string, stream grpc.ServerStream) error {
		if err := stream.SendMsg(wrapperspb.String("news")); err != nil {
			return err
		}
		<-stream.Context().Done()
		return nil
	})
	c := dial(t, address)
	if err := errors.Join(c.Open("/a.B/C", request("x"), true), c.Flush()); err != nil {
		t.Fatal(err)
	}
	c.in.Close()
	if err := c.Read(func(int, []byte, int64) error { return nil }, never); err == nil {
		t.Error("got no error, want one")
	}
}

func TestClientAnswersSettingsPingsAndFullWindows(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	c := dial(t, listener.Addr().String())
	conn, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(poll.Patience)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(c.Open("/a.B/C", nil, true), c.Flush()); err != nil {
		t.Fatal(err)
	}
	c.unread, c.streams[0].unread = updateAfter-1, updateAfter-1 // as if the server had sent half a gigabyte
	ping := [8]byte{'p', 'i', 'n', 'g'}
	server := http2.NewFramer(conn, conn)
	if err := errors.Join(server.WriteSettings(), server.WritePing(false, ping), server.WriteData(1, false, Prefix(0))); err != nil {
		t.Fatal(err)
	}
	read := false
	if err := c.Read(func(int, []byte, int64) error { read = true; return nil }, func() bool { return read }); err != nil {
		t.Fatal(err)
	}
	preface := make([]byte, len(http2.ClientPreface))
	if _, err := io.ReadFull(conn, preface); err != nil || string(preface) != http2.ClientPreface {
		t.Fatalf("got preface %q, error %v", preface, err)
	}
	want := map[string]bool{"settings": true, "ping": true, "connection": true, "stream": true}
	for len(want) > 0 {
		frame, err := server.ReadFrame()
		if err != nil {
			t.Fatalf("read a frame: %v; still want %v", err, want)
		}
		switch f := frame.(type) {
		case *http2.SettingsFrame:
			if f.IsAck() {
				delete(want, "settings")
			}
		case *http2.PingFrame:
			if f.IsAck() && f.Data == ping {
				delete(want, "ping")
			}
		case *http2.WindowUpdateFrame:
			if f.Increment == updateAfter-1+5 {
				delete(want, map[uint32]string{0: "connection", 1: "stream"}[f.StreamID])
			}
		}
	}
}

func TestMessagesMaySpanFramesAnywhere(t *testing.T) {
	var all []byte
	want := []string{"", "a", strings.Repeat("b", 300), "c"}
	for _, m := range want {
		all = append(append(all, Prefix(len(m))...), m...)
	}
	for piece := 1; piece <= len(all); piece++ {
		var s stream
		var got []string
		for part := range slices.Chunk(all, piece) {
			err := s.messages(part, func(m []byte) error {
				got = append(got, string(m))
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("in pieces of %d bytes: got %q, want %q", piece, got, want)
		}
	}
}
