package server_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding/gzip"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/protobuf/proto"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// message returns a gRPC message that is not compressed.
func message(t *testing.T, m proto.Message) []byte {
	t.Helper()
	body, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return append(sized(len(body)), body...)
}

// A request that breaks a rule of its stream ends it with the reason, even if it comes with the
// headers, before the server has begun to serve the stream. Other streams of the connection go on.
func TestRequestsThatComeWithTheHeadersAreRefusedWithAReason(t *testing.T) {
	in := start(t, settings{})
	ctx := within(t)
	in.awaitLoaded(ctx, t)
	const tries, large = 40, 70_000
	subscriber := &fanoutv1.SubscribeRequest{Request: &fanoutv1.SubscribeRequest_Subscriber{Subscriber: &fanoutv1.Subscriber{Instance: "a"}}}
	violations := map[string][]byte{
		"a large message":      append(sized(large), make([]byte, 1000)...),
		"a compressed message": append([]byte{1}, sized(100)[1:]...),
	}
	for _, c := range []struct {
		name, method string
		first        proto.Message
	}{
		{"a start", fanoutv1.FanoutService_Subscribe_FullMethodName, startRequest(1, &fanoutv1.WatchRequest{Resource: config, Begin: fromNow()})},
		{"a stop", fanoutv1.FanoutService_Subscribe_FullMethodName, stopRequest(1)},
		{"a subscriber", fanoutv1.FanoutService_Subscribe_FullMethodName, subscriber},
		{"a watch", fanoutv1.FanoutService_Watch_FullMethodName, &fanoutv1.WatchRequest{Resource: config}},
		{"a put", putMethod, &fanoutv1.PutRequest{Resource: config, Put: putText("a", "b")}},
		{"a report", fanoutv1.FanoutService_Report_FullMethodName, &fanoutv1.ReportRequest{}},
		{"a question", reflecting, &reflectionpb.ServerReflectionRequest{}},
	} {
		for then, violation := range violations {
			t.Run(c.name+", then "+then, func(t *testing.T) {
				s := in.sendFrom(ctx, t, host(2))
				var refused []uint32
				for range tries {
					refused = append(refused, s.begin(t, c.method, "", append(message(t, c.first), violation...)))
				}
				s.await(t, "all streams end", func() bool { return len(s.ended) == tries })
				for _, stream := range refused {
					wantRefusal(t, s.ended[stream], invalid(""))
				}
				get := s.begin(t, fanoutv1.FanoutService_Get_FullMethodName, "", sized(0))
				if err := s.framer.WriteData(get, true, nil); err != nil {
					t.Fatal(err)
				}
				s.await(t, "another request is answered", func() bool { return s.ended[get] != nil })
				wantRefusal(t, s.ended[get], invalid("resource"))
			})
		}
	}
}

// Clients that use gRPC get the reason as well.
func TestClientsLearnWhyTheirStreamWasRefused(t *testing.T) {
	in := start(t, settings{})
	ctx := within(t)
	in.awaitLoaded(ctx, t)
	large := startRequest(2, &fanoutv1.WatchRequest{Resource: config, LabelSelector: strings.Repeat("a", 70_000)})
	for name, c := range map[string]struct {
		requests []*fanoutv1.SubscribeRequest
		options  []grpc.CallOption
	}{
		"large":      {requests: []*fanoutv1.SubscribeRequest{stopRequest(1), large}},
		"compressed": {requests: []*fanoutv1.SubscribeRequest{stopRequest(1), stopRequest(2)}, options: []grpc.CallOption{grpc.UseCompressor(gzip.Name)}},
	} {
		t.Run(name, func(t *testing.T) {
			for range 40 {
				s, err := in.reads.Subscribe(ctx, c.options...)
				if err != nil {
					t.Fatal(err)
				}
				for _, r := range c.requests {
					if err := s.Send(r); err != nil && !errors.Is(err, io.EOF) { // EOF: the stream has ended
						t.Fatal(err)
					}
				}
				for err == nil {
					_, err = s.Recv()
				}
				wantRefusal(t, err, invalid(""))
			}
		})
	}
}
