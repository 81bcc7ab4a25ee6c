package server_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/protobuf/proto"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// resetStreams opens streams on a connection of its own and resets them. It sends all of every
// second request, and less of the others. It resets a stream when later others are open, and the
// last ones when wait returns. resetStreams returns when the server has answered a ping that
// follows.
func resetStreams(ctx context.Context, t *testing.T, address, method string, req proto.Message, count, later int, wait func()) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	out := bufio.NewWriter(conn)
	framer := http2.NewFramer(out, conn)
	body, err := proto.Marshal(req)
	if err != nil {
		t.Error(err)
		return
	}
	message := append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(body))), body...)
	var block bytes.Buffer
	headers := hpack.NewEncoder(&block)
	write := func() error {
		if _, err := out.WriteString(http2.ClientPreface); err != nil {
			return err
		}
		if err := framer.WriteSettings(); err != nil {
			return err
		}
		for i := range count {
			block.Reset()
			if err := writeHeaders(headers, method); err != nil {
				return err
			}
			id := uint32(2*i + 1)
			if err := framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block.Bytes(), EndHeaders: true}); err != nil {
				return err
			}
			sent := message
			if i%2 == 0 {
				sent = message[:len(message)*(i%4)/3]
			}
			if err := framer.WriteData(id, len(sent) == len(message), sent); err != nil {
				return err
			}
			if err := out.Flush(); err != nil {
				return err
			}
			if i >= later {
				if err := framer.WriteRSTStream(id-2*uint32(later), http2.ErrCodeCancel); err != nil {
					return err
				}
			}
		}
		wait()
		for i := count - later; i < count; i++ {
			if err := framer.WriteRSTStream(uint32(2*i+1), http2.ErrCodeCancel); err != nil {
				return err
			}
		}
		if err := framer.WritePing(false, [8]byte{1}); err != nil {
			return err
		}
		return out.Flush()
	}
	written := make(chan error, 1)
	go func() { written <- write() }()
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			if err != io.EOF {
				t.Errorf("%s: the connection ends before the answer to the ping: %v", method, err)
			}
			break
		}
		if ping, ok := frame.(*http2.PingFrame); ok && ping.IsAck() {
			break
		}
	}
	if err := <-written; err != nil {
		t.Errorf("%s: write: %v", method, err)
	}
}

// wantNoFault stops the server and checks its log: clients reset streams, which is no fault of the
// server.
func wantNoFault(ctx context.Context, t *testing.T, in *instance) {
	t.Helper()
	in.stop(ctx)
	in.lines.mu.Lock()
	defer in.lines.mu.Unlock()
	codes := map[any]int{}
	for _, l := range in.lines.all {
		if l["level"] == "ERROR" {
			t.Errorf("got log line %v", l)
		}
		if l["msg"] == "finished call" {
			codes[l["grpc.code"]]++
		}
	}
	if codes["Internal"]+codes["Unknown"] > 0 || codes["Canceled"] == 0 {
		t.Errorf("got codes %v, want some Canceled and neither Internal nor Unknown", codes)
	}
}

// A client may reset its streams at any time.
func TestResetStreamsAreNoFaultOfTheServer(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	for name, uncached := range map[string]bool{"cached": false, "uncached": true} {
		t.Run(name, func(t *testing.T) {
			in := start(t, settings{uncached: uncached})
			ctx := within(t)
			in.put(ctx, t, config, "a", strings.Repeat("x", maxValueBytes/4)) // more than a client accepts that does not read
			var clients sync.WaitGroup
			for method, req := range map[string]proto.Message{
				fanoutv1.FanoutService_Watch_FullMethodName:       &fanoutv1.WatchRequest{Resource: config},
				fanoutv1.FanoutService_Get_FullMethodName:         &fanoutv1.GetRequest{Resource: config, Key: "a"},
				fanoutv1.FanoutService_List_FullMethodName:        &fanoutv1.ListRequest{Resource: config},
				fanoutv1.StoreService_Put_FullMethodName:          &fanoutv1.PutRequest{Resource: config, Put: putText("b", "1")},
				fanoutv1.AdminService_ListWatchers_FullMethodName: &fanoutv1.ListWatchersRequest{},
				fanoutv1.StoreService_Transact_FullMethodName: &fanoutv1.TransactRequest{Resource: config, Operations: []*fanoutv1.Operation{
					{Operation: &fanoutv1.Operation_Put{Put: putText("c", "1")}},
				}},
				fanoutv1.AdminService_ListResources_FullMethodName: &fanoutv1.ListResourcesRequest{MeasureLag: true},
				reflectionpb.ServerReflection_ServerReflectionInfo_FullMethodName: &reflectionpb.ServerReflectionRequest{
					MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{},
				},
				healthpb.Health_Watch_FullMethodName: &healthpb.HealthCheckRequest{Service: "resource/" + config},
			} {
				for _, later := range []int{0, 10} {
					clients.Go(func() { resetStreams(ctx, t, in.address, method, req, 100, later, func() {}) })
				}
			}
			clients.Wait()
			wantNoFault(ctx, t, in)
		})
	}
}

// A watch or a list that waits for etcd ends when its client resets the stream.
func TestResetStreamsThatWaitAreNoFaultOfTheServer(t *testing.T) {
	for method, req := range map[string]proto.Message{
		fanoutv1.FanoutService_Watch_FullMethodName: &fanoutv1.WatchRequest{Resource: config},
		fanoutv1.FanoutService_List_FullMethodName:  &fanoutv1.ListRequest{Resource: config},
	} {
		t.Run(method, func(t *testing.T) {
			in := start(t, settings{})
			ctx := within(t)
			in.awaitLoaded(ctx, t)
			questions := newGate("Revision")
			in.seams[config].on(questions.pass)
			resetStreams(ctx, t, in.address, method, req, 200, 200, func() { questions.await(ctx, t) })
			questions.open()
			wantNoFault(ctx, t, in)
		})
	}
}
