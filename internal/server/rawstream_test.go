package server_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// rawStream is a Watch over its own connection that handles HTTP/2 frames itself. gRPC's
// client always reads from the socket and extends the flow-control window. With a
// rawStream, a test decides whether to read (readFrames) and how much the server may send
// (grant).
type rawStream struct {
	conn       net.Conn
	subscribes bool          // the method is Subscribe
	framer     *http2.Framer // one goroutine at a time reads; writers hold mu

	mu       sync.Mutex
	data     []byte                    // guarded by mu; the beginning of an incomplete message
	received int                       // guarded by mu; bytes of DATA so far
	all      []*fanoutv1.WatchResponse // guarded by mu
	header   bool                      // guarded by mu; the response header has arrived
	err      error                     // guarded by mu; how the stream ended, io.EOF if the status was OK
	changed  chan struct{}             // guarded by mu; closed and replaced for every frame
}

// Windows of HTTP/2 flow control.
const (
	wideOpen      = 1<<31 - 1
	defaultWindow = 1<<16 - 1 // of a connection; settings do not change it
)

// requestHeaders returns the headers of a gRPC request.
func requestHeaders(method string) []hpack.HeaderField {
	return []hpack.HeaderField{
		{Name: ":method", Value: "POST"},
		{Name: ":scheme", Value: "http"},
		{Name: ":path", Value: method},
		{Name: ":authority", Value: "localhost"},
		{Name: "content-type", Value: "application/grpc"},
		{Name: "te", Value: "trailers"},
	}
}

// writeHeaders encodes the headers of a gRPC request.
func writeHeaders(to *hpack.Encoder, method string) error {
	for _, h := range requestHeaders(method) {
		if err := to.WriteField(h); err != nil {
			return err
		}
	}
	return nil
}

// openRaw sends a request and reads until the server has registered the watch. The server
// may send at most window bytes of messages.
func openRaw(ctx context.Context, t *testing.T, address string, req *fanoutv1.WatchRequest, window uint32) *rawStream {
	t.Helper()
	return openRawMethod(ctx, t, address, fanoutv1.FanoutService_Watch_FullMethodName, window, req)
}

// openRawMethod is like openRaw, for the method with the full name.
func openRawMethod(ctx context.Context, t *testing.T, address, method string, window uint32, requests ...proto.Message) *rawStream {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // fails if the test has closed it
	// Bytes in the socket no longer count as memory of the server, so keep it small.
	if err := conn.(*net.TCPConn).SetReadBuffer(64 << 10); err != nil {
		t.Fatal(err)
	}
	s := &rawStream{conn: conn, framer: http2.NewFramer(conn, conn), changed: make(chan struct{})}
	s.subscribes = method == fanoutv1.FanoutService_Subscribe_FullMethodName
	s.framer.ReadMetaHeaders = hpack.NewDecoder(4<<10, nil)
	if err := s.send(method, window, requests); err != nil {
		t.Fatal(err)
	}
	for !s.header && s.err == nil {
		s.step()
	}
	return s
}

func (s *rawStream) send(method string, window uint32, requests []proto.Message) error {
	if _, err := io.WriteString(s.conn, http2.ClientPreface); err != nil {
		return err
	}
	if err := s.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: window}); err != nil {
		return err
	}
	if err := s.framer.WriteWindowUpdate(0, wideOpen-defaultWindow); err != nil {
		return err
	}
	var block bytes.Buffer
	headers := hpack.NewEncoder(&block)
	if err := writeHeaders(headers, method); err != nil {
		return err
	}
	if err := s.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndHeaders: true}); err != nil {
		return err
	}
	for i, req := range requests {
		body, err := proto.Marshal(req)
		if err != nil {
			return err
		}
		const notCompressed = 0
		message := binary.BigEndian.AppendUint32([]byte{notCompressed}, uint32(len(body)))
		last := !s.subscribes && i == len(requests)-1
		if err := s.framer.WriteData(1, last, append(message, body...)); err != nil {
			return err
		}
	}
	return nil
}

// readFrames starts to read from the socket until the stream or the connection ends.
func (s *rawStream) readFrames() {
	go func() {
		for s.step() {
		}
	}()
}

// grant lets the server send window more bytes.
func (s *rawStream) grant(t *testing.T, window uint32) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.framer.WriteWindowUpdate(1, window); err != nil {
		t.Fatal(err)
	}
}

// forget drops the messages received so far.
func (s *rawStream) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = nil
}

// step reads a frame. It returns false after the last one.
func (s *rawStream) step() bool {
	frame, err := s.framer.ReadFrame()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		err = s.take(frame)
	}
	s.err = err
	close(s.changed)
	s.changed = make(chan struct{})
	return err == nil
}

func (s *rawStream) take(frame http2.Frame) error {
	switch f := frame.(type) {
	case *http2.SettingsFrame:
		if !f.IsAck() {
			return s.framer.WriteSettingsAck()
		}
	case *http2.PingFrame:
		if !f.IsAck() {
			return s.framer.WritePing(true, f.Data)
		}
	case *http2.MetaHeadersFrame:
		s.header = true
		if f.StreamEnded() {
			return statusIn(f)
		}
	case *http2.DataFrame:
		s.received += len(f.Data())
		s.data = append(s.data, f.Data()...)
		return s.parse()
	}
	return nil
}

// parse moves complete messages from data to all.
func (s *rawStream) parse() error {
	const head = 5
	for len(s.data) >= head {
		end := head + int(binary.BigEndian.Uint32(s.data[1:]))
		if len(s.data) < end {
			return nil
		}
		if err := s.parseMessage(s.data[head:end]); err != nil {
			return err
		}
		s.data = slices.Clone(s.data[end:])
	}
	return nil
}

func (s *rawStream) parseMessage(b []byte) error {
	if !s.subscribes {
		m := &fanoutv1.WatchResponse{}
		s.all = append(s.all, m)
		return proto.Unmarshal(b, m)
	}
	resp := &fanoutv1.SubscribeResponse{}
	if err := proto.Unmarshal(b, resp); err != nil {
		return err
	}
	for _, e := range resp.GetEntries() {
		if e.GetResponse() != nil {
			s.all = append(s.all, e.GetResponse())
		}
	}
	return nil
}

// statusIn returns the status in a trailer: io.EOF for OK, otherwise the error.
func statusIn(trailer *http2.MetaHeadersFrame) error {
	values := map[string]string{}
	for _, f := range trailer.Fields {
		values[f.Name] = f.Value
	}
	code, err := strconv.ParseUint(values["grpc-status"], 10, 32)
	switch details := values["grpc-status-details-bin"]; {
	case err != nil:
		return err
	case codes.Code(code) == codes.OK:
		return io.EOF
	case details != "":
		b, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(details, "="))
		if err != nil {
			return err
		}
		p := &statuspb.Status{}
		if err := proto.Unmarshal(b, p); err != nil {
			return err
		}
		return status.FromProto(p).Err()
	}
	return status.Error(codes.Code(code), values["grpc-message"])
}

// await waits until the condition is true or the stream ends. It returns the messages
// received so far and how the stream ended. The condition is called with s.mu held.
func (s *rawStream) await(ctx context.Context, t *testing.T, want string, is func(*rawStream) bool) ([]*fanoutv1.WatchResponse, error) {
	t.Helper()
	for {
		s.mu.Lock()
		ok, all, err, received, changed := is(s), slices.Clone(s.all), s.err, s.received, s.changed
		s.mu.Unlock()
		if ok || err != nil {
			return all, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatalf("timed out waiting until %s; got %d messages, %d bytes", want, len(all), received)
		}
	}
}
