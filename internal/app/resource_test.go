package app_test

import (
	"context"
	"os"
	"testing"
	"time"

	"google.golang.org/grpc"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/app"
	"github.com/fanoutd/fanoutd/internal/config"
	"github.com/fanoutd/fanoutd/test/poll"
)

// protobufResource returns a resource with the codec protobuf.
func protobufResource(t *testing.T) config.Resource {
	t.Helper()
	set, err := os.ReadFile("../object/testdata/route.binpb")
	if err != nil {
		t.Fatal(err)
	}
	r := config.NewResource("routes")
	r.Codec, r.DescriptorSet, r.Descriptors, r.Message = "protobuf", "route.binpb", set, "acme.v1.Route"
	r.LabelsPath = "annotations"
	r.Fields = []config.Field{{Name: "region", Path: "region", Indexed: true}, {Name: "host", Path: "backend.host_name"}}
	return r
}

func TestConfiguredFieldsAndLabelsSelect(t *testing.T) {
	cfg := testConfig(t)
	documents := config.NewResource("documents")
	documents.Codec, documents.LabelsPath = "json", "annotations"
	documents.Fields = []config.Field{{Name: "region", Path: "region"}, {Name: "host", Path: "backend.host_name"}}
	cfg.Resources = []config.Resource{documents, protobufResource(t)}
	conn, stop := start(t, cfg)
	defer stop()
	writes, reads := fanoutv1.NewStoreServiceClient(conn), fanoutv1.NewFanoutServiceClient(conn)
	for _, r := range cfg.Resources {
		for key, text := range map[string]string{
			"a": `{"region": "eu", "backend": {"host_name": "h"}, "annotations": {"env": "prod"}}`,
			"b": `{"region": "eu", "backend": {"host_name": "h"}}`,
			"c": `{"region": "us", "backend": {"host_name": "h"}, "annotations": {"env": "prod"}}`,
		} {
			put := &fanoutv1.PutOperation{Key: key, Value: &fanoutv1.PutOperation_Text{Text: text}}
			if _, err := writes.Put(t.Context(), &fanoutv1.PutRequest{Resource: r.Name, Put: put}); err != nil {
				t.Fatal(err)
			}
		}
		got, err := reads.List(t.Context(), &fanoutv1.ListRequest{Resource: r.Name, FieldSelector: "region=eu,host=h", LabelSelector: "env=prod"})
		if err != nil {
			t.Fatal(err)
		}
		if len(got.GetObjects()) != 1 || got.GetObjects()[0].GetKey() != "a" {
			t.Errorf("%s: got %v, want a", r.Name, got.GetObjects())
		}
	}
}

// Build also fails for an invalid resource that was not validated before.
func TestInvalidResourceIsRefused(t *testing.T) {
	for name, spoil := range map[string]func(*config.Resource){
		"missing descriptors":         func(r *config.Resource) { r.Descriptors = nil },
		"unknown message":             func(r *config.Resource) { r.Message = "acme.v1.Rout" },
		"unknown field":               func(r *config.Resource) { r.Fields[0].Path = "regoin" },
		"labels path of another type": func(r *config.Resource) { r.LabelsPath = "region" },
		"unknown codec":               func(r *config.Resource) { r.Codec = "xml" },
	} {
		cfg := testConfig(t)
		r := protobufResource(t)
		spoil(&r)
		cfg.Resources = []config.Resource{r}
		if _, err := app.Build(t.Context(), cfg, testLog(t)); err == nil {
			t.Errorf("%s: Build succeeded", name)
		}
	}
}

// A watch that reaches the time limit ends with a position.
func TestWatchTimeLimitEndsWithAPosition(t *testing.T) {
	cfg := testConfig(t)
	cfg.WatchTimeLimit = config.Duration(100 * time.Millisecond)
	conn, stop := start(t, cfg)
	defer stop()
	ctx := poll.Context(t)
	// The limit may end a watch while the resource is still loading. Only a watch that has
	// sent its snapshot has a position.
	for {
		last, synced := lastMessage(t, ctx, conn)
		if last.GetKind() != fanoutv1.WatchResponse_KIND_DRAINING {
			t.Fatalf("got last message %v, want KIND_DRAINING", last)
		}
		if !synced {
			continue
		}
		if last.GetPosition().GetEpoch() == "" || last.GetPosition().GetRevision() == 0 {
			t.Errorf("got last message %v, want a position", last)
		}
		return
	}
}

// lastMessage watches until the server ends the watch. It returns the last message, and
// whether the snapshot was complete before.
func lastMessage(t *testing.T, ctx context.Context, conn *grpc.ClientConn) (last *fanoutv1.WatchResponse, synced bool) {
	t.Helper()
	stream, err := fanoutv1.NewFanoutServiceClient(conn).Watch(ctx, &fanoutv1.WatchRequest{Resource: "config"})
	if err != nil {
		t.Fatal(err)
	}
	for {
		m, err := stream.Recv()
		if err != nil {
			return last, synced
		}
		last, synced = m, synced || m.GetKind() == fanoutv1.WatchResponse_KIND_SYNCED
	}
}
