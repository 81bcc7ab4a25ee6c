package cluster

import (
	"context"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/cluster/manage"
	"github.com/fanoutd/fanoutd/internal/server/rpc"
	"github.com/fanoutd/fanoutd/test/loopback"
	"github.com/fanoutd/fanoutd/test/poll"
)

// endless is an etcd with a large database.
type endless struct {
	manage.Etcd
	ended chan error
}

func (e *endless) Cluster(context.Context) (manage.Cluster, error) {
	return manage.Cluster{Self: 1, Members: []manage.Member{{ID: 1, Name: "node-1", Report: &manage.Report{Leader: 1}}}}, nil
}

func (e *endless) Snapshot(_ context.Context, send func([]byte, int64) error) error {
	var err error
	for chunk := make([]byte, 32<<10); err == nil; {
		err = send(chunk, 1<<40)
	}
	e.ended <- err
	return err
}

// A client that stops reading does not keep the database open.
func TestSnapshotForAClientThatStopsReading(t *testing.T) {
	listener, err := net.Listen("tcp", loopback.FreeAddress(t))
	if err != nil {
		t.Fatal(err)
	}
	etcd := &endless{ended: make(chan error, 1)}
	service := New(etcd, new(rpc.Rights))
	service.stall = 50 * time.Millisecond
	server := grpc.NewServer(grpc.InTapHandle(func(ctx context.Context, _ *tap.Info) (context.Context, error) {
		return rpc.WithStreamContext(ctx), nil
	}))
	fanoutv1.RegisterClusterServiceServer(server, service)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	stream, err := fanoutv1.NewClusterServiceClient(conn).TakeSnapshot(poll.Context(t), &fanoutv1.TakeSnapshotRequest{})
	if err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-etcd.ended:
		if err == nil {
			t.Error("sending ended without an error")
		}
	case <-poll.Context(t).Done():
		t.Fatal("the snapshot goes on")
	}
	for err == nil { // what had been sent
		_, err = stream.Recv()
	}
	if status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("got %v, want DEADLINE_EXCEEDED", err)
	}
}
