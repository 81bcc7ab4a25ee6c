package app_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/config"
	"github.com/fanoutd/fanoutd/test/loopback"
)

// A shutdown sends each watch a position to resume from, and writes all audit records.
func TestShutdownDrainsWatchesAndFlushesTheAuditLog(t *testing.T) {
	cfg := testConfig(t)
	cfg.AuditLog = filepath.Join(t.TempDir(), "audit.log")
	conn, stop := start(t, cfg)
	reads := fanoutv1.NewFanoutServiceClient(conn)
	var ended []chan *fanoutv1.WatchResponse
	for range 20 {
		stream, err := reads.Watch(t.Context(), &fanoutv1.WatchRequest{Resource: "config", Begin: &fanoutv1.WatchRequest_FromNow{FromNow: &fanoutv1.FromNow{}}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(); err != nil {
			t.Fatal(err)
		}
		last := make(chan *fanoutv1.WatchResponse, 1)
		ended = append(ended, last)
		go func() {
			var m *fanoutv1.WatchResponse
			for {
				next, err := stream.Recv()
				if err != nil {
					last <- m
					return
				}
				m = next
			}
		}()
	}
	put, err := fanoutv1.NewStoreServiceClient(conn).Put(t.Context(), &fanoutv1.PutRequest{
		Resource: "config", Put: &fanoutv1.PutOperation{Key: "app/limits", Value: &fanoutv1.PutOperation_Text{Text: "1"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	stop()
	for _, last := range ended {
		if m := <-last; m.GetKind() != fanoutv1.WatchResponse_KIND_DRAINING || m.GetPosition().GetRevision() != put.GetRevision() {
			t.Errorf("got last message %v, want KIND_DRAINING at %d", m, put.GetRevision())
		}
	}
	text, err := os.ReadFile(cfg.AuditLog)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(text, []byte(`"keys":["app/limits"]`)) {
		t.Errorf("got audit log %q, want the key app/limits", text)
	}
}

// A watch of an etcd client does not extend a stop beyond shutdown-grace. The client
// gets the status with which it reconnects.
func TestStopEndsWatchesOfEtcdClients(t *testing.T) {
	cfg := testConfig(t)
	cfg.EmbeddedEtcdListen = loopback.FreeAddress(t)
	cfg.ShutdownGrace = config.Duration(time.Second)
	_, stop := start(t, cfg)
	etcd, err := clientv3.New(clientv3.Config{Endpoints: []string{cfg.EmbeddedEtcdListen}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer etcd.Close()
	watch, err := etcdserverpb.NewWatchClient(etcd.ActiveConnection()).Watch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	create := &etcdserverpb.WatchRequest_CreateRequest{CreateRequest: &etcdserverpb.WatchCreateRequest{Key: []byte("k")}}
	if err := watch.Send(&etcdserverpb.WatchRequest{RequestUnion: create}); err != nil {
		t.Fatal(err)
	}
	if _, err := watch.Recv(); err != nil {
		t.Fatal(err)
	}
	stop()
	if _, err := watch.Recv(); err == nil || !strings.Contains(err.Error(), "server stopped") {
		t.Errorf("the watch ended with %v, want %v", err, rpctypes.ErrGRPCStopped)
	}
}
