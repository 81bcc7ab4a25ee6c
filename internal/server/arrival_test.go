package server_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/server"
	"github.com/fanoutd/fanoutd/test/poll"
)

// begin sends the headers of a request and a part of its body. It returns the status with
// which the server ends the stream.
func begin(ctx context.Context, t *testing.T, address, method string) error {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(poll.Patience)); err != nil {
		t.Fatal(err)
	}
	var block bytes.Buffer
	headers := hpack.NewEncoder(&block)
	if err := writeHeaders(headers, method); err != nil {
		t.Fatal(err)
	}
	framer := http2.NewFramer(conn, conn)
	framer.ReadMetaHeaders = hpack.NewDecoder(4<<10, nil)
	_, err = io.WriteString(conn, http2.ClientPreface)
	for _, send := range []func() error{
		func() error { return framer.WriteSettings() },
		func() error {
			return framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndHeaders: true})
		},
		func() error { return framer.WriteData(1, false, []byte{0, 0, 0, 0}) }, // an incomplete length prefix
	} {
		if err == nil {
			err = send()
		}
	}
	for err == nil {
		var frame http2.Frame
		frame, err = framer.ReadFrame()
		if f, ok := frame.(*http2.MetaHeadersFrame); ok && f.StreamEnded() {
			return statusIn(f)
		}
	}
	t.Fatal(err)
	return nil
}

// The server ends a request that the client does not send completely in time. The time
// limit does not apply to requests that have arrived and wait for their answer.
func TestIncompleteRequestsAreEnded(t *testing.T) {
	in := start(t, settings{prepare: func(s *server.Server) { s.SetRequestPatience(50 * time.Millisecond) }})
	ctx := within(t)
	in.awaitLoaded(ctx, t)
	commits := newGate("Commit")
	defer commits.open()
	in.seams[config].on(commits.pass)
	written := make(chan error, 1)
	go func() {
		_, err := in.writes.Put(ctx, &fanoutv1.PutRequest{Resource: config, Put: putText("a", "")})
		written <- err
	}()
	commits.await(ctx, t)
	w := in.watch(ctx, t, &fanoutv1.WatchRequest{Resource: config, Begin: fromNow()})
	w.next(fanoutv1.WatchResponse_KIND_BOOKMARK)
	for _, method := range []string{
		fanoutv1.FanoutService_List_FullMethodName,
		fanoutv1.FanoutService_Watch_FullMethodName,
		fanoutv1.StoreService_Put_FullMethodName,
		"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
	} {
		if err := begin(ctx, t, in.address, method); status.Code(err) != codes.DeadlineExceeded {
			t.Errorf("%s: got %v, want DEADLINE_EXCEEDED", method, err)
		}
	}
	commits.open()
	if err := <-written; err != nil {
		t.Errorf("write that took longer than the time limit of incomplete requests: %v", err)
	}
	w.wantEvents(added("a", "", in.revision(ctx, t)))
}
