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
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
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
	stream   bool // of responses
	requests bool // a stream of requests
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
					typeOf(m.Input()), typeOf(m.Output()), m.IsStreamingServer(), m.IsStreamingClient(),
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
	carried := 0                    // guarded by mu: messages of watches of Subscribe streams
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
				carried += m.received
				mu.Unlock()
				m.received = 0
				if st := status.Convert(err); isInternal(st) {
					t.Errorf("%s: got %v", rpc.name, st)
				}
			}
		})
	}
	running.Wait()
	t.Logf("answers: %v; messages of watches of Subscribe streams: %d", answers, carried)
	if carried == 0 {
		t.Error("no watch of a Subscribe stream got a message")
	}
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
	// Clients with random deadlines are a part of the attack.
	ctx, cancel := context.WithTimeout(ctx, time.Duration(1+m.IntN(100))*time.Millisecond)
	defer cancel()
	request := m.further(rpc.request)
	if !rpc.stream {
		response := rpc.response.New().Interface()
		err := conn.Invoke(ctx, rpc.name, request, response)
		m.learn(response.ProtoReflect())
		return err
	}
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, rpc.name)
	if err != nil {
		return err
	}
	if err := stream.SendMsg(request); err != nil {
		return received(stream, rpc, m, err)
	}
	if rpc.requests {
		// Watches begin, end and use the same ids while others are received.
		for range m.IntN(30) {
			if err := stream.SendMsg(m.further(rpc.request)); err != nil {
				return received(stream, rpc, m, err)
			}
			if m.IntN(3) == 0 {
				if err := received(stream, rpc, m, nil); err != nil {
					return err
				}
			}
		}
	}
	if !rpc.requests || m.IntN(2) == 0 {
		if err := stream.CloseSend(); err != nil {
			return err
		}
	}
	for range m.IntN(20) {
		if err := received(stream, rpc, m, nil); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
	return nil
}

// received receives a message. If a request could not be sent, the error that ended the stream is
// what it receives.
func received(stream grpc.ClientStream, rpc method, m *maker, sent error) error {
	if sent != nil && !errors.Is(sent, io.EOF) {
		return sent
	}
	response := rpc.response.New().Interface()
	if err := stream.RecvMsg(response); err != nil {
		return err
	}
	m.learn(response.ProtoReflect())
	if r, ok := response.(*fanoutv1.SubscribeResponse); ok {
		for _, e := range r.GetEntries() {
			if e.GetResponse() != nil {
				m.received++
			}
			for _, ended := range []*spb.Status{e.GetRefused(), e.GetEnded()} {
				if st := status.FromProto(ended); isInternal(st) {
					return st.Err()
				}
			}
		}
	}
	return nil
}
