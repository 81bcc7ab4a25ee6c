package hostile

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/test/resetstorm"
)

// The kinds of attacks that speak HTTP/2 themselves. The connections are those of attack.Size.
const (
	resetGRPC     kind = "watches that are reset at once"
	resetHTTP     kind = "HTTP requests that are reset at once"
	openSnapshots kind = "watches with a snapshot, opened at once, that cannot be sent"
	openFromNow   kind = "watches from now on, opened at once, that cannot be sent"
)

// rawConn is a connection whose HTTP/2 frames the attacker makes.
type rawConn struct {
	net.Conn
	framer *http2.Framer
	out    *bytes.Buffer // frames that are not sent yet
	write  sync.Mutex    // held while frames are written
}

// openRaw opens a connection. The server may send window bytes on each stream.
func (a *attack) openRaw(ctx context.Context, i int, window uint32) (*rawConn, error) {
	conn, err := a.from(i).DialContext(ctx, "tcp", a.Address)
	if err != nil {
		return nil, err
	}
	c := &rawConn{Conn: conn, out: bytes.NewBufferString(http2.ClientPreface)}
	c.framer = http2.NewFramer(c.out, conn)
	if err := c.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: window}); err != nil {
		return nil, err
	}
	return c, c.flush()
}

func (c *rawConn) flush() error {
	_, err := c.out.WriteTo(c.Conn)
	return err
}

// block returns the headers of a request.
func (a *attack) block() []byte {
	fields := []hpack.HeaderField{
		{Name: ":method", Value: "POST"},
		{Name: ":scheme", Value: "http"},
		{Name: ":path", Value: a.method()},
		{Name: ":authority", Value: "localhost"},
		{Name: "content-type", Value: "application/grpc"},
		{Name: "te", Value: "trailers"},
	}
	if a.Kind == resetHTTP {
		fields = []hpack.HeaderField{
			{Name: ":method", Value: "GET"},
			{Name: ":scheme", Value: "http"},
			{Name: ":path", Value: "/v1/resources/" + resource + "/objects"},
			{Name: ":authority", Value: "localhost"},
		}
	}
	return resetstorm.Block(fields)
}

// method returns the path of the method of a request.
func (a *attack) method() string {
	if a.Kind == subscribeInSilence {
		return fanoutv1.FanoutService_Subscribe_FullMethodName
	}
	return fanoutv1.FanoutService_Watch_FullMethodName
}

// headers returns a frame that begins a request.
func headers(stream uint32, block []byte) http2.HeadersFrameParam {
	return http2.HeadersFrameParam{StreamID: stream, BlockFragment: block, EndHeaders: true}
}

// reset opens streams and resets each at once. It connects again when the server closes the
// connection, until ctx ends.
func (a *attack) reset(ctx context.Context, i int) {
	const batch = 100 // streams in one write
	block := a.block()
	for ctx.Err() == nil {
		c, err := a.openRaw(ctx, i, 1<<16-1)
		if err != nil {
			a.pause(ctx)
			continue
		}
		done := context.AfterFunc(ctx, func() { _ = c.Close() })
		var reading sync.WaitGroup
		reading.Go(func() { a.readCalm(c) })
		for id := uint32(1); err == nil; {
			for range batch {
				err = c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block, EndHeaders: true, EndStream: a.Kind == resetHTTP})
				if err == nil {
					err = c.framer.WriteRSTStream(id, http2.ErrCodeCancel)
				}
				id += 2
			}
			if err == nil {
				err = c.flush()
			}
			a.begun.Add(batch)
		}
		_ = c.Close()
		reading.Wait()
		done()
	}
}

// pause waits a moment before the next attempt to connect.
func (a *attack) pause(ctx context.Context) {
	timer := time.NewTimer(time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// readCalm reads until the connection ends, and counts a GOAWAY frame with ENHANCE_YOUR_CALM
// as a refusal.
func (a *attack) readCalm(c *rawConn) {
	reader := http2.NewFramer(io.Discard, c.Conn)
	for {
		frame, err := reader.ReadFrame()
		if err != nil {
			return
		}
		if bye, ok := frame.(*http2.GoAwayFrame); ok && bye.ErrCode == http2.ErrCodeEnhanceYourCalm {
			a.refused.Add(1)
			if a.calmed != nil {
				a.calmed()
			}
		}
	}
}

// openAtOnce opens watches over one connection as fast as it can, on streams on which the
// server may send nothing but headers. It holds them until ctx ends. A watch that the server
// ends is a refusal, also if the server had accepted it before.
func (a *attack) openAtOnce(ctx context.Context, i int) {
	allAnswered := sync.OnceFunc(a.unanswered.Done)
	defer allAnswered()
	c, err := a.openRaw(ctx, i, 0)
	if err != nil {
		a.ended(ctx, err)
		return
	}
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	var writing sync.WaitGroup
	defer writing.Wait()
	writing.Go(func() {
		block, body := a.block(), a.watchRequest()
		var err error
		for n := uint32(0); n < uint32(a.Streams) && err == nil; n++ {
			c.write.Lock()
			err = c.framer.WriteHeaders(headers(2*n+1, block))
			if err == nil {
				err = c.framer.WriteData(2*n+1, true, body)
			}
			if err == nil {
				err = c.flush()
			}
			c.write.Unlock()
			a.begun.Add(1)
		}
	})
	reader := http2.NewFramer(io.Discard, c.Conn)
	reader.ReadMetaHeaders = hpack.NewDecoder(4096, nil) // 4096: the default of HTTP/2
	answered := map[uint32]bool{}                        // by stream: the server has not ended it
	for {
		frame, err := reader.ReadFrame()
		if err != nil {
			a.ended(ctx, err)
			return
		}
		switch f := frame.(type) {
		case *http2.MetaHeadersFrame:
			if f.StreamEnded() {
				a.end(answered, f.StreamID, limitOf(f))
			} else {
				answered[f.StreamID] = true
				a.accepted.Add(1)
			}
		case *http2.RSTStreamFrame:
			a.end(answered, f.StreamID, f.ErrCode.String())
		case *http2.PingFrame:
			c.write.Lock()
			if !f.IsAck() && c.framer.WritePing(true, f.Data) == nil {
				_ = c.flush() // the next read fails, too
			}
			c.write.Unlock()
		}
		if len(answered) == a.Streams {
			allAnswered()
		}
	}
}

// end notes that the server has ended a stream because of a limit, or for another reason. A reset
// may follow the end of a stream, and does not count.
func (a *attack) end(answered map[uint32]bool, stream uint32, limit string) {
	open, seen := answered[stream]
	if seen && !open {
		return
	}
	answered[stream] = false
	if open {
		a.accepted.Add(-1)
	}
	a.countRefusal(limit)
}

func (a *attack) countRefusal(limit string) {
	a.refused.Add(1)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.limits[limit]++
}

// limitOf returns the name of the limit because of which the server refused a request. The name
// is in the trailers. It returns the reason if the request ended for another one.
func limitOf(trailers *http2.MetaHeadersFrame) string {
	for _, field := range trailers.RegularFields() {
		if field.Name != "grpc-status-details-bin" {
			continue
		}
		details, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(field.Value, "="))
		answer := &spb.Status{}
		if err != nil || proto.Unmarshal(details, answer) != nil {
			return "details that cannot be decoded"
		}
		return reasonIn(answer)
	}
	return "no reason"
}

// reasonIn returns the name of the limit because of which a status refuses a request, or its reason.
func reasonIn(answer *spb.Status) string {
	for _, detail := range status.FromProto(answer).Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok {
			return cmp.Or(info.GetMetadata()["limit_name"], info.GetReason())
		}
	}
	return "no reason"
}

// request returns the request of a watch of a storm. The watch is not concerned with what the
// well-behaved client writes: deliveries have their own cost.
func (a *attack) request() *fanoutv1.WatchRequest {
	req := &fanoutv1.WatchRequest{Resource: resource, Scope: &fanoutv1.Scope{Scope: &fanoutv1.Scope_Prefix{Prefix: "large"}}}
	switch a.Kind {
	case openFromNow, startFromNow, restartAlways:
		req.Begin = &fanoutv1.WatchRequest_FromNow{FromNow: &fanoutv1.FromNow{}}
	}
	if a.Stale {
		req.Consistency = &fanoutv1.ReadConsistency{Level: &fanoutv1.ReadConsistency_Any{Any: &fanoutv1.AnyRevision{}}}
	}
	return req
}

// watchRequest returns a request as gRPC sends it.
func (a *attack) watchRequest() []byte {
	body, err := proto.Marshal(a.request())
	if err != nil {
		panic(err) // the request is valid
	}
	const notCompressed = 0
	return append(binary.BigEndian.AppendUint32([]byte{notCompressed}, uint32(len(body))), body...)
}
