package server_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/server/quota"
)

// resetStorm opens streams over one connection and gives up each at once, until the server
// closes the connection. giveUp sends what ends a stream. It returns the GOAWAY frame, or nil.
func resetStorm(ctx context.Context, t *testing.T, address string, giveUp func(*http2.Framer, uint32) error) *http2.GoAwayFrame {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			t.Fatal(err)
		}
	}
	var block bytes.Buffer
	headers := hpack.NewEncoder(&block)
	if err := writeHeaders(headers, fanoutv1.FanoutService_Watch_FullMethodName, true); err != nil {
		t.Fatal(err)
	}
	framer := http2.NewFramer(conn, conn)
	if _, err = io.WriteString(conn, http2.ClientPreface); err == nil {
		err = framer.WriteSettings()
	}
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	group.Go(func() {
		for id := uint32(1); err == nil; id += 2 {
			err = framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block.Bytes(), EndHeaders: true})
			if err == nil {
				err = giveUp(framer, id)
			}
		}
	})
	defer group.Wait()
	defer conn.Close()
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			t.Logf("the connection ended: %v", err)
			return nil
		}
		if bye, ok := frame.(*http2.GoAwayFrame); ok {
			t.Logf("got %v after %d streams: %s", bye.ErrCode, bye.LastStreamID/2, bye.DebugData())
			return bye
		}
	}
}

// A connection that opens streams and gives them up at once is closed with
// ENHANCE_YOUR_CALM, however it gives them up. Other connections of the same host are not.
func TestConnectionsThatAbandonStreamsAreClosed(t *testing.T) {
	in := start(t, settings{limits: quota.Limits{ResetRate: 50}})
	ctx := within(t)
	in.awaitLoaded(ctx, t)
	w := in.watch(ctx, t, &fanoutv1.WatchRequest{Resource: config, Begin: fromNow()})
	w.next(fanoutv1.WatchResponse_KIND_BOOKMARK)
	for name, giveUp := range map[string]func(*http2.Framer, uint32) error{
		"the client resets the stream": func(f *http2.Framer, id uint32) error { return f.WriteRSTStream(id, http2.ErrCodeCancel) },
		"the client makes the server reset the stream": func(f *http2.Framer, id uint32) error {
			return f.WriteRawFrame(http2.FrameWindowUpdate, 0, id, make([]byte, 4)) // an increment of 0
		},
	} {
		bye := resetStorm(ctx, t, in.address, giveUp)
		if bye == nil || bye.ErrCode != http2.ErrCodeEnhanceYourCalm || !strings.Contains(string(bye.DebugData()), "max-reset-rate") {
			t.Errorf("%s: got %v, want GOAWAY with ENHANCE_YOUR_CALM", name, bye)
		}
	}
	if n := in.server.Usage().RefusedConnections[quota.MaxResetRate]; n != 2 {
		t.Errorf("got %d connections closed, want 2", n)
	}
	w.wantEvents(added("a", "1", in.put(ctx, t, config, "a", "1")))
}
