package server_test

import (
	"context"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// reflect sends a request to the reflection service and returns the answer.
func (in *instance) reflect(ctx context.Context, t *testing.T, req *reflectionpb.ServerReflectionRequest) *reflectionpb.ServerReflectionResponse {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := reflectionpb.NewServerReflectionClient(in.conn).ServerReflectionInfo(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(req); err != nil {
		t.Fatal(err)
	}
	resp, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

func (in *instance) services(ctx context.Context, t *testing.T) []string {
	t.Helper()
	resp := in.reflect(ctx, t, &reflectionpb.ServerReflectionRequest{
		MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{},
	})
	var names []string
	for _, s := range resp.GetListServicesResponse().GetService() {
		names = append(names, s.GetName())
	}
	slices.Sort(names)
	return names
}

func TestReflectionListsTheServices(t *testing.T) {
	in := start(t, settings{})
	ctx := within(t)
	want := []string{
		"fanout.v1.AdminService",
		"fanout.v1.ClusterService",
		"fanout.v1.FanoutService",
		"fanout.v1.StoreService",
		"grpc.health.v1.Health",
		"grpc.reflection.v1.ServerReflection",
		"grpc.reflection.v1alpha.ServerReflection",
	}
	if diff := cmp.Diff(want, in.services(ctx, t)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for _, symbol := range append(want, "fanout.v1.FanoutService.Watch") {
		resp := in.reflect(ctx, t, &reflectionpb.ServerReflectionRequest{
			MessageRequest: &reflectionpb.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: symbol},
		})
		if len(resp.GetFileDescriptorResponse().GetFileDescriptorProto()) == 0 {
			t.Errorf("got %v for %s, want its file descriptors", resp, symbol)
		}
	}
}

func TestAReadOnlyServerHasNoStoreService(t *testing.T) {
	in := start(t, settings{readOnly: true})
	ctx := within(t)
	if got := in.services(ctx, t); slices.Contains(got, "fanout.v1.StoreService") {
		t.Errorf("got services %v, want no StoreService", got)
	}
	before := in.revision(ctx, t)
	_, err := in.writes.Put(ctx, &fanoutv1.PutRequest{Resource: config, Put: putText("a", "")})
	if status.Code(err) != codes.Unimplemented {
		t.Errorf("write: got %v, want UNIMPLEMENTED", err)
	}
	if after := in.revision(ctx, t); after != before {
		t.Errorf("got revision %d, want %d: the server must write nothing", after, before)
	}
	if _, err := in.reads.List(ctx, &fanoutv1.ListRequest{Resource: config}); err != nil {
		t.Errorf("read: %v", err)
	}
}
