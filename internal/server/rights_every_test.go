package server_test

import (
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// Every method of the protocol checks rights. The test finds the methods by reflection,
// so it covers new ones, too.
func TestEveryMethodChecksRights(t *testing.T) {
	in := start(t, settings{policy: aliceMay})
	ctx := within(t)
	mallory := in.as(t, "mallory")
	alice := in.as(t, "alice")
	retrying(t, func() error {
		_, err := alice.reads.List(ctx, &fanoutv1.ListRequest{Resource: config})
		return err
	})
	ofAlice := alice.watch(ctx, t, &fanoutv1.WatchRequest{Resource: config}).token()
	methods := 0
	for _, file := range []protoreflect.FileDescriptor{
		fanoutv1.File_fanout_v1_fanout_proto, fanoutv1.File_fanout_v1_store_proto, fanoutv1.File_fanout_v1_admin_proto,
	} {
		for i := range file.Services().Len() {
			service := file.Services().Get(i)
			for j := range service.Methods().Len() {
				method := service.Methods().Get(j)
				methods++
				if method.IsStreamingClient() {
					continue // Subscribe: TestARevokedRightEndsOnlyItsWatches
				}
				for _, resource := range []string{config, "unknown"} {
					t.Run(string(method.Name())+"/"+resource, func(t *testing.T) {
						req, resp := dynamicpb.NewMessage(method.Input()), dynamicpb.NewMessage(method.Output())
						if f := method.Input().Fields().ByName("resource"); f != nil {
							req.Set(f, protoreflect.ValueOfString(resource))
						}
						if f := method.Input().Fields().ByName("watch"); f != nil { // Report needs a watch of its own
							req.Set(f, protoreflect.ValueOfString(ofAlice))
						}
						stream, err := mallory.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true},
							"/"+string(service.FullName())+"/"+string(method.Name()))
						if err != nil {
							t.Fatal(err)
						}
						_ = stream.SendMsg(req) // RecvMsg returns the error
						_ = stream.CloseSend()
						err = stream.RecvMsg(resp)
						got := refusalIn(t, err)
						wantRefusal(t, err, denied(got.Metadata["verb"], got.Metadata["resource"]))
					})
				}
			}
		}
	}
	if methods < 9 {
		t.Errorf("got %d methods, want at least 9", methods)
	}
}
