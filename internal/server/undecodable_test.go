package server_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// rawCodec sends bytes as they are.
type rawCodec struct{ encoding.CodecV2 }

func (c rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}

// gRPC itself refuses requests that it cannot decode. Strings that are not UTF-8 are
// among them; most client libraries refuse to send those.
func TestUndecodableRequestsNeverReachTheServices(t *testing.T) {
	in := start(t, settings{})
	ctx := within(t)
	in.awaitLoaded(ctx, t)
	before := in.cost(ctx, t)
	for name, request := range map[string][]byte{
		"not protobuf":         {0xff},
		"resource not UTF-8":   {1<<3 | 2, 1, 0xff},
		"truncated field":      {1<<3 | 2, 100, 'c'},
		"field of number zero": {0x02, 0},
	} {
		for _, method := range []string{
			fanoutv1.FanoutService_Get_FullMethodName,
			fanoutv1.FanoutService_List_FullMethodName,
			fanoutv1.StoreService_Put_FullMethodName,
			fanoutv1.StoreService_Delete_FullMethodName,
			fanoutv1.StoreService_Transact_FullMethodName,
		} {
			err := in.conn.Invoke(ctx, method, request, nil, grpc.ForceCodecV2(rawCodec{encoding.GetCodecV2("proto")}))
			if status.Code(err) != codes.Internal {
				t.Errorf("%s to %s: got %v, want INTERNAL", name, method, err)
			}
		}
		stream, err := in.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, fanoutv1.FanoutService_Watch_FullMethodName,
			grpc.ForceCodecV2(rawCodec{encoding.GetCodecV2("proto")}))
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.SendMsg(request); err != nil {
			t.Fatal(err)
		}
		if err := stream.CloseSend(); err != nil {
			t.Fatal(err)
		}
		if err := stream.RecvMsg(&fanoutv1.WatchResponse{}); status.Code(err) != codes.Internal {
			t.Errorf("%s to Watch: got %v, want INTERNAL", name, err)
		}
	}
	stream, err := in.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, fanoutv1.FanoutService_Watch_FullMethodName)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if err := stream.RecvMsg(&fanoutv1.WatchResponse{}); status.Code(err) != codes.Internal {
		t.Errorf("Watch without a request: got %v, want INTERNAL", err)
	}
	// gRPC answers INTERNAL, but the client is at fault, so the log level stays DEBUG.
	if got := in.lines.await(ctx, t, line{"msg": "finished call", "grpc.method": "Watch"}); got["level"] != "DEBUG" {
		t.Errorf("got log line %v, want level DEBUG", got)
	}
	if diff := cmp.Diff(before, in.cost(ctx, t)); diff != "" {
		t.Errorf("the requests cost work, -before +after:\n%s", diff)
	}
}

func TestRequestsThatAreTooLargeNeverReachTheServices(t *testing.T) {
	in := start(t, settings{})
	ctx := within(t)
	in.awaitLoaded(ctx, t)
	before := in.cost(ctx, t)
	_, err := in.writes.Put(ctx, &fanoutv1.PutRequest{Resource: config, Put: putText("a", strings.Repeat("x", 5<<20))})
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("got %v, want RESOURCE_EXHAUSTED", err)
	}
	if diff := cmp.Diff(before, in.cost(ctx, t)); diff != "" {
		t.Errorf("the request cost work, -before +after:\n%s", diff)
	}
}
