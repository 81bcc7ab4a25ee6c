package surface

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/test/seed"
)

// method is an RPC.
type method struct {
	name     string // the path of the method
	request  protoreflect.MessageType
	response protoreflect.MessageType
	stream   bool
}

// methods returns all RPCs of the protocol.
func methods(t *testing.T) []method {
	t.Helper()
	typeOf := func(d protoreflect.MessageDescriptor) protoreflect.MessageType {
		found, err := protoregistry.GlobalTypes.FindMessageByName(d.FullName())
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	var all []method
	for _, file := range []protoreflect.FileDescriptor{
		fanoutv1.File_fanout_v1_fanout_proto, fanoutv1.File_fanout_v1_store_proto, fanoutv1.File_fanout_v1_admin_proto,
	} {
		for i := range file.Services().Len() {
			service := file.Services().Get(i)
			for j := range service.Methods().Len() {
				m := service.Methods().Get(j)
				all = append(all, method{
					"/" + string(service.FullName()) + "/" + string(m.Name()),
					typeOf(m.Input()), typeOf(m.Output()), m.IsStreamingServer(),
				})
			}
		}
	}
	if len(all) == 0 {
		t.Fatal("got no methods")
	}
	return all
}

// clients is the number of concurrent clients.
const clients = 8

func TestRandomRequests(t *testing.T) {
	s := serve(t)
	all := methods(t)
	source := seed.New(t)
	var running sync.WaitGroup
	var mu sync.Mutex
	answers := map[codes.Code]int{} // guarded by mu
	for i := range clients {
		running.Go(func() {
			conn, err := grpc.NewClient(s.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			m := &maker{Rand: source.Rand(uint64(i))}
			for n := 0; s.more(n, 300); n++ {
				rpc := all[m.IntN(len(all))]
				err := call(t.Context(), conn, rpc, m)
				mu.Lock()
				answers[status.Code(err)]++
				mu.Unlock()
				if st := status.Convert(err); isInternal(st) {
					t.Errorf("%s: got %v", rpc.name, st)
				}
			}
		})
	}
	running.Wait()
	t.Logf("answers: %v", answers)
	if answers[codes.OK] == 0 || answers[codes.InvalidArgument] == 0 {
		t.Errorf("too few kinds of answers, or unexpected ones: %v", answers)
	}
	s.settle()
}

// isInternal reports whether a status reports an unknown fault of the server.
func isInternal(st *status.Status) bool {
	if st.Code() == codes.Unknown || st.Code() == codes.DataLoss {
		return true
	}
	return st.Code() == codes.Internal || slices.ContainsFunc(st.Details(), func(d any) bool {
		info, ok := d.(*errdetails.ErrorInfo)
		return ok && info.GetReason() == "INTERNAL"
	})
}

// call makes a request. It leaves a stream after some messages, or without reading
// any.
func call(ctx context.Context, conn *grpc.ClientConn, rpc method, m *maker) error {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(1+m.IntN(100))*time.Millisecond)
	defer cancel()
	request := m.message(rpc.request)
	if !rpc.stream {
		response := rpc.response.New().Interface()
		err := conn.Invoke(ctx, rpc.name, request, response)
		m.learn(response.ProtoReflect())
		return err
	}
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, rpc.name)
	if err != nil {
		return err
	}
	if err := errors.Join(stream.SendMsg(request), stream.CloseSend()); err != nil {
		return err
	}
	for range m.IntN(20) {
		response := rpc.response.New().Interface()
		if err := stream.RecvMsg(response); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		m.learn(proto.Message(response).ProtoReflect())
	}
	return nil
}
