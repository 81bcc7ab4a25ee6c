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
)

// sender begins requests over a connection of its own, frame by frame.
type sender struct {
	conn   net.Conn
	framer *http2.Framer
	block  bytes.Buffer
	hpack  *hpack.Encoder
	last   uint32

	asked map[uint32]bool  // the streams of which the server wants more than it takes of each
	ended map[uint32]error // how others have ended
}

// sendFrom connects from a host.
func (in *instance) sendFrom(ctx context.Context, t *testing.T, from string) *sender {
	t.Helper()
	conn, err := dialer(from).DialContext(ctx, "tcp", in.address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // an error says that a test has closed it
	deadline, _ := ctx.Deadline()
	s := &sender{conn: conn, framer: http2.NewFramer(conn, conn), asked: map[uint32]bool{}, ended: map[uint32]error{}}
	s.framer.ReadMetaHeaders = hpack.NewDecoder(4<<10, nil)
	s.hpack = hpack.NewEncoder(&s.block)
	_, err = io.WriteString(conn, http2.ClientPreface)
	if err := errors.Join(err, conn.SetDeadline(deadline), s.framer.WriteSettings()); err != nil {
		t.Fatal(err)
	}
	return s
}

// begin sends the headers of a request, and the beginning of a message.
func (s *sender) begin(t *testing.T, method, credentials string, beginning []byte) (stream uint32) {
	t.Helper()
	s.block.Reset()
	for _, h := range []hpack.HeaderField{
		{Name: ":method", Value: "POST"},
		{Name: ":scheme", Value: "http"},
		{Name: ":path", Value: method},
		{Name: ":authority", Value: "localhost"},
		{Name: "content-type", Value: "application/grpc"},
		{Name: "te", Value: "trailers"},
		{Name: "authorization", Value: credentials},
	} {
		if h.Value == "" {
			continue
		}
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

// await reads until something is so.
func (s *sender) await(t *testing.T, want string, is func() bool) {
	t.Helper()
	for !is() {
		frame, err := s.framer.ReadFrame()
		if err != nil {
			t.Fatalf("waiting until %s: %v; the server asks for more of %d requests, %d have ended", want, err, len(s.asked), len(s.ended))
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
				s.asked[f.StreamID] = true
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

// sized is what comes before a message of a size.
func sized(size int) []byte { return binary.BigEndian.AppendUint32([]byte{0}, uint32(size)) }

const (
	largeRequest = 4 << 20 // as large as they may be
	manyRequests = 100
	putMethod    = fanoutv1.StoreService_Put_FullMethodName
	reflecting   = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
)

// Of requests of those whom it does not know the server reads nothing.
func TestNothingIsReadOfStrangers(t *testing.T) {
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
					t.Errorf("a request ends with %v", err)
				}
			}
			if len(s.asked) > 0 {
				t.Errorf("the server asks for more of %d requests", len(s.asked))
			}
		})
	}
	in.wantNothingTaken(ctx, t)
}

// What is on its way takes room, of which a client gets no more than it leaves: others
// have their large requests, and nobody needs any for what is there at once.
func TestRequestsOnTheirWayAreLimited(t *testing.T) {
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
	s.await(t, "all others are refused", func() bool { return len(s.asked)+len(s.ended) == manyRequests })
	if len(s.asked) != room {
		t.Errorf("the server asks for more of %d requests, there is room for %d", len(s.asked), room)
	}
	for _, err := range s.ended {
		wantRefusal(t, err, exhausted(apierr.ReasonTooManyRequests, map[string]string{"limit": "16777216"}))
	}
	if u := in.server.Usage(); u.RequestBytes != memory/2 || u.RequestsWaiting != 0 {
		t.Errorf("%d bytes are taken, and %d requests wait", u.RequestBytes, u.RequestsWaiting)
	}
	// Small ones of the same client, and large ones of another.
	for _, one := range []struct {
		from  string
		bytes int
	}{{host(2), 1000}, {host(3), maxValueBytes}} {
		writes := fanoutv1.NewStoreServiceClient(in.dialFrom(t, one.from))
		for range 20 {
			_, err := writes.Put(ctx, &fanoutv1.PutRequest{Resource: config, Put: putText("a", strings.Repeat("x", one.bytes))})
			if err != nil {
				t.Errorf("%d bytes from %s: %v", one.bytes, one.from, err)
			}
		}
	}
	_ = s.conn.Close() // as it may
	in.wantNothingTaken(ctx, t)
}

// Who waits has its turn.
func TestARequestWaitsForRoom(t *testing.T) {
	const memory = 16 << 20
	in := start(t, settings{limits: quota.Limits{RequestMemory: memory}})
	ctx := within(t)
	s := in.sendFrom(ctx, t, host(2))
	for range 3 {
		s.begin(t, putMethod, "", sized(largeRequest))
	}
	in.awaitUsage(ctx, t, "one waits", func(u quota.Usage) bool { return u.RequestsWaiting == 1 })
	s.await(t, "two are read", func() bool { return len(s.asked) == 2 })
	for stream := range s.asked {
		if err := s.framer.WriteRSTStream(stream, http2.ErrCodeCancel); err != nil {
			t.Fatal(err)
		}
	}
	s.await(t, "the third is read", func() bool { return len(s.asked) == 3 })
}

// Whoever says that it sends more than it may is refused before it does.
func TestALargeRequestIsNotRead(t *testing.T) {
	in := start(t, settings{})
	ctx := within(t)
	s := in.sendFrom(ctx, t, host(2))
	s.begin(t, putMethod, "", sized(1<<31))
	s.await(t, "it is refused", func() bool { return len(s.ended) == 1 })
	wantRefusal(t, s.ended[1], exhausted(apierr.ReasonRequestTooLarge, map[string]string{"limit": "4194304", "size": "2147483648"}))
	if len(s.asked) > 0 {
		t.Error("the server asks for more of it")
	}
}

// Behind the one message of a request there is nothing to read, and little over a stream
// of many; compressed ones may be larger than they are.
func TestWhatElseComesOverAStream(t *testing.T) {
	const memory = 16 << 20
	in := start(t, settings{limits: quota.Limits{RequestMemory: memory}})
	ctx := within(t)
	listServices := []byte{7<<3 | 2, 0}
	for name, one := range map[string]struct {
		method string
		comes  []byte
		room   int64 // that is taken
		ends   bool
	}{
		"a large message behind another": {method: putMethod, comes: append(sized(0), sized(largeRequest)...), ends: true},
		"the same over many":             {method: reflecting, comes: append(append(sized(2), listServices...), sized(largeRequest)...), ends: true},
		"a stream of many":               {method: reflecting, comes: sized(100), room: 1 << 20},
		"something compressed":           {method: putMethod, comes: append([]byte{1}, sized(100)[1:]...), room: 2 * largeRequest},
		"a small one that does not come": {method: putMethod, comes: sized(100), room: 100},
	} {
		t.Run(name, func(t *testing.T) {
			s := in.sendFrom(ctx, t, host(2))
			s.begin(t, one.method, "", one.comes)
			if one.ends {
				s.await(t, "it ends", func() bool { return len(s.ended) == 1 })
			}
			in.awaitUsage(ctx, t, "it has room", func(u quota.Usage) bool { return u.RequestBytes == one.room })
			_ = s.conn.Close() // as it may
			in.wantNothingTaken(ctx, t)
		})
	}
}

// A message in frames of a byte would take many times its size of memory. It ends its
// stream, and nothing else on the connection.
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
		t.Errorf("the stream ends with %v, want %v", got, codes.DeadlineExceeded)
	}
	s.ended = map[uint32]error{}
	if err := s.framer.WriteData(other, true, request); err != nil {
		t.Fatal(err)
	}
	s.await(t, "the other request is answered", func() bool { return len(s.ended) == 1 })
	if err := s.ended[other]; !errors.Is(err, io.EOF) {
		t.Errorf("the other request on the connection ends with %v, want OK", err)
	}
}

// The padding of a frame is no part of a message.
func TestPaddingIsNoPartOfAMessage(t *testing.T) {
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
	in.awaitUsage(ctx, t, "it has room", func(u quota.Usage) bool { return u.RequestBytes == 100 })
}
