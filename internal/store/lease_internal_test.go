package store

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/fanoutd/fanoutd/internal/object"
)

// shortGrants grants leases that end before they are used.
type shortGrants struct {
	pb.LeaseClient
	client *clientv3.Client
}

func (g shortGrants) LeaseGrant(ctx context.Context, req *pb.LeaseGrantRequest, opts ...grpc.CallOption) (*pb.LeaseGrantResponse, error) {
	resp, err := g.LeaseClient.LeaseGrant(ctx, req, opts...)
	if err == nil {
		_, err = g.client.Revoke(ctx, clientv3.LeaseID(resp.ID))
	}
	return resp, err
}

// If etcd is so slow that the lease of a put ends before the put, another attempt may succeed.
func TestLeaseThatEndsBeforeItsPut(t *testing.T) {
	cfg := EmbeddedConfig{Dir: filepath.Join(t.TempDir(), "data"), UnsafeNoFsync: true}
	s, err := OpenEmbedded(t.Context(), cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	s.grants = shortGrants{s.grants, s.client}
	put := object.Op{Kind: object.OpPut, Key: "k", Value: []byte("v"), TTL: time.Hour}
	if _, err := s.Plain("test", "/test/").Commit(t.Context(), []object.Op{put}); !errors.Is(err, object.ErrUnavailable) {
		t.Errorf("got %v, want %v", err, object.ErrUnavailable)
	}
}
