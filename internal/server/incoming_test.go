package server_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/server"
	"github.com/fanoutd/fanoutd/internal/server/apierr"
	"github.com/fanoutd/fanoutd/internal/server/quota"
	"github.com/fanoutd/fanoutd/test/poll"
)

// sender sends requests over its own connection, frame by frame.
type sender struct {
	conn   net.Conn
	framer *http2.Framer
	block  bytes.Buffer
	hpack  *hpack.Encoder
	last   uint32

	extended map[uint32]bool  // streams whose flow-control window the server has extended
	ended    map[uint32]error // how other streams have ended
}

// sendFrom returns a sender that connects from a host.
func (in *instance) sendFrom(ctx context.Context, t *testing.T, from string) *sender {
	t.Helper()
	conn, err := dialer(from).DialContext(ctx, "tcp", in.address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // fails if the test has closed it
	s := &sender{conn: conn, framer: http2.NewFramer(conn, conn), extended: map[uint32]bool{}, ended: map[uint32]error{}}
	s.framer.ReadMetaHeaders = hpack.NewDecoder(4<<10, nil)
	s.hpack = hpack.NewEncoder(&s.block)
	_, err = io.WriteString(conn, http2.ClientPreface)
	if err := errors.Join(err, conn.SetDeadline(time.Now().Add(poll.Patience)), s.framer.WriteSettings()); err != nil {
		t.Fatal(err)
	}
	return s
}

// begin sends the headers of a request and the beginning of a message.
func (s *sender) begin(t *testing.T, method, credentials string, beginning []byte) (stream uint32) {
	t.Helper()
	s.block.Reset()
	headers := requestHeaders(method)
	if credentials != "" {
		headers = append(headers, hpack.HeaderField{Name: "authorization", Value: credentials})
	}
	for _, h := range headers {
		if err := s.hpack.WriteField(h); err != nil {
			t.Fatal(err)
		}
	}
	stream = s.last + 1
	s.last += 2
	err := s.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: s.block.Bytes(), EndHeaders: true})
	if err := errors.Join(err, s.framer.WriteData(stream, false, beginning)); err != nil {
		t.Fatal(err)
	}
	return stream
}

// await reads frames until the condition is true.
func (s *sender) await(t *testing.T, want string, is func() bool) {
	t.Helper()
	for !is() {
		frame, err := s.framer.ReadFrame()
		if err != nil {
			t.Fatalf("waiting until %s: %v; the server extended the window of %d requests, %d have ended", want, err, len(s.extended), len(s.ended))
		}
		switch f := frame.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				err = s.framer.WriteSettingsAck()
			}
		case *http2.PingFrame:
			if !f.IsAck() {
				err = s.framer.WritePing(true, f.Data)
			}
		case *http2.WindowUpdateFrame:
			if f.StreamID != 0 {
				s.extended[f.StreamID] = true
			}
		case *http2.MetaHeadersFrame:
			if f.StreamEnded() {
				s.ended[f.StreamID] = statusIn(f)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// sized returns the gRPC prefix of a message of the given size.
func sized(size int) []byte { return binary.BigEndian.AppendUint32([]byte{0}, uint32(size)) }

const (
	largeRequest = 4 << 20 // the largest size allowed
	manyRequests = 100
	putMethod    = fanoutv1.StoreService_Put_FullMethodName
	reflecting   = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
)

// The server refuses requests of unauthenticated clients without reading their messages.
func TestMessagesOfUnauthenticatedClientsAreNotRead(t *testing.T) {
	in := start(t, settings{policy: "rules: []"})
	ctx := within(t)
	for name, credentials := range map[string]string{"none": "", "bad": "Basic nobody"} {
		t.Run(name, func(t *testing.T) {
			s := in.sendFrom(ctx, t, host(2))
			for i := range manyRequests {
				s.begin(t, []string{putMethod, reflecting, fanoutv1.FanoutService_Watch_FullMethodName}[i%3], credentials, sized(largeRequest))
			}
			s.await(t, "all are refused", func() bool { return len(s.ended) == manyRequests })
			for _, err := range s.ended {
				if status.Code(err) != codes.Unauthenticated {
					t.Errorf("got %v for a request, want UNAUTHENTICATED", err)
				}
			}
			if len(s.extended) > 0 {
				t.Errorf("the server extended the window of %d requests, want 0", len(s.extended))
			}
		})
	}
	in.wantNoUsage(ctx, t)
}

// Requests that have not arrived completely reserve memory. A client gets at most half of
// the limit, so other clients can still send large requests. Small requests, which arrive
// at once, need no reservation.
func TestMemoryOfIncompleteRequestsIsLimited(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	const memory = 16 << 20
	in := start(t, settings{
		limits:  quota.Limits{RequestMemory: memory},
		prepare: func(s *server.Server) { s.SetSlotTimes(50*time.Millisecond, time.Hour) },
	})
	ctx := within(t)
	in.awaitLoaded(ctx, t)
	s := in.sendFrom(ctx, t, host(2))
	const room = memory / 2 / largeRequest
	for range manyRequests {
		s.begin(t, putMethod, "", sized(largeRequest))
	}
	s.await(t, "all others are refused", func() bool { return len(s.extended)+len(s.ended) == manyRequests })
	if len(s.extended) != room {
		t.Errorf("the server extended the window of %d requests, want %d", len(s.extended), room)
	}
	for _, err := range s.ended {
		wantRefusal(t, err, exhausted(apierr.MaxRequestMemory, map[string]string{"limit": "16777216"}))
	}
	if u := in.server.Usage(); u.RequestBytes != memory/2 || u.RequestsWaiting != 0 {
		t.Errorf("got %d bytes reserved and %d requests waiting, want %d and 0", u.RequestBytes, u.RequestsWaiting, memory/2)
	}
	// Small requests of the same client succeed, and large ones of another.
	for _, one := range []struct {
		from  string
		bytes int
	}{{host(2), 1000}, {host(3), maxValueBytes}} {
		writes := fanoutv1.NewStoreServiceClient(in.dialFrom(t, one.from))
		for range 20 {
			_, err := writes.Put(ctx, &fanoutv1.PutRequest{Resource: config, Put: putText("a", strings.Repeat("x", one.bytes))})
			if err != nil {
				t.Errorf("request of %d bytes from %s: %v", one.bytes, one.from, err)
			}
		}
	}
	_ = s.conn.Close() // the server may have closed it
	in.wantNoUsage(ctx, t)
}

// A request that waits for memory continues when other requests end.
func TestARequestWaitsForMemory(t *testing.T) {
	const memory = 16 << 20
	in := start(t, settings{limits: quota.Limits{RequestMemory: memory}})
	ctx := within(t)
	s := in.sendFrom(ctx, t, host(2))
	for range 3 {
		s.begin(t, putMethod, "", sized(largeRequest))
	}
	in.awaitUsage(ctx, t, "one request waits", func(u quota.Usage) bool { return u.RequestsWaiting == 1 })
	s.await(t, "two are read", func() bool { return len(s.extended) == 2 })
	for stream := range s.extended {
		if err := s.framer.WriteRSTStream(stream, http2.ErrCodeCancel); err != nil {
			t.Fatal(err)
		}
	}
	s.await(t, "the third is read", func() bool { return len(s.extended) == 3 })
}

// A request that announces too large a message is refused before the message is read.
func TestRequestsThatAreTooLargeAreNotRead(t *testing.T) {
	in := start(t, settings{})
	ctx := within(t)
	s := in.sendFrom(ctx, t, host(2))
	s.begin(t, putMethod, "", sized(1<<31))
	s.await(t, "the request is refused", func() bool { return len(s.ended) == 1 })
	wantRefusal(t, s.ended[1], exhausted(apierr.MaxRequestSize, map[string]string{"limit": "4194304", "size": "2147483648"}))
	if len(s.extended) > 0 {
		t.Error("the server extended the window of the request, want a refusal without reading")
	}
}

// The server reserves memory for the announced size of a message, and more for compressed
// messages and for streams of many messages. It ends a stream whose second message is
// larger than it may be.
func TestStreamsReserveMemoryForTheirMessages(t *testing.T) {
	const memory = 16 << 20
	in := start(t, settings{limits: quota.Limits{RequestMemory: memory}})
	ctx := within(t)
	listServices := []byte{7<<3 | 2, 0}
	for name, one := range map[string]struct {
		method string
		sent   []byte
		memory int64 // reserved
		ends   bool
	}{
		"large second message of a unary request": {method: putMethod, sent: append(sized(0), sized(largeRequest)...), ends: true},
		"large second message of a stream":        {method: reflecting, sent: append(append(sized(2), listServices...), sized(largeRequest)...), ends: true},
		"stream of many messages":                 {method: reflecting, sent: sized(100), memory: 1 << 20},
		"compressed message":                      {method: putMethod, sent: append([]byte{1}, sized(100)[1:]...), memory: 2 * largeRequest},
		"small incomplete message":                {method: putMethod, sent: sized(100), memory: 100},
	} {
		t.Run(name, func(t *testing.T) {
			s := in.sendFrom(ctx, t, host(2))
			s.begin(t, one.method, "", one.sent)
			if one.ends {
				s.await(t, "the stream ends", func() bool { return len(s.ended) == 1 })
			}
			in.awaitUsage(ctx, t, "the memory is reserved", func(u quota.Usage) bool { return u.RequestBytes == one.memory })
			_ = s.conn.Close() // the server may have closed it
			in.wantNoUsage(ctx, t)
		})
	}
}

// A message in frames of one byte would use many times its size in memory. The server ends
// its stream, and nothing else on the connection.
func TestARequestInTinyFramesEndsItsStreamOnly(t *testing.T) {
	in := start(t, settings{limits: quota.Limits{RequestMemory: 16 << 20}})
	ctx := within(t)
	in.awaitLoaded(ctx, t)
	s := in.sendFrom(ctx, t, host(2))
	request, err := proto.Marshal(&fanoutv1.PutRequest{Resource: config, Put: putText("a", "b")})
	if err != nil {
		t.Fatal(err)
	}
	other := s.begin(t, putMethod, "", sized(len(request))) // the message is still to come
	stream := s.begin(t, putMethod, "", sized(1000))
	for range 900 {
		if err := s.framer.WriteData(stream, false, []byte{0}); err != nil {
			t.Fatal(err)
		}
	}
	s.await(t, "the stream ends", func() bool { return len(s.ended) == 1 })
	// gRPC writes the status, from the error of the context.
	if got := status.Code(s.ended[stream]); got != codes.DeadlineExceeded {
		t.Errorf("got stream end %v, want %v", got, codes.DeadlineExceeded)
	}
	s.ended = map[uint32]error{}
	if err := s.framer.WriteData(other, true, request); err != nil {
		t.Fatal(err)
	}
	s.await(t, "the other request is answered", func() bool { return len(s.ended) == 1 })
	if err := s.ended[other]; !errors.Is(err, io.EOF) {
		t.Errorf("got %v for the other request on the connection, want OK", err)
	}
}

func TestPaddingIsNotPartOfAMessage(t *testing.T) {
	in := start(t, settings{limits: quota.Limits{RequestMemory: 16 << 20}})
	ctx := within(t)
	in.awaitLoaded(ctx, t)
	padded := in.sendFrom(ctx, t, host(2))
	stream := padded.begin(t, putMethod, "", nil)
	for _, part := range [][]byte{sized(100)[:2], sized(100)[2:]} {
		if err := padded.framer.WriteDataPadded(stream, false, part, make([]byte, 7)); err != nil {
			t.Fatal(err)
		}
	}
	in.awaitUsage(ctx, t, "the memory is reserved", func(u quota.Usage) bool { return u.RequestBytes == 100 })
}
