package store

import (
	"context"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
)

const (
	// outageGrace is the time without a connection before an outage is reported.
	outageGrace = time.Second

	// maxOutagePause is the maximum time between two reports of one outage. The pause
	// doubles with each report.
	maxOutagePause = time.Minute

	// causeTimeout limits the request that asks for the cause of an outage.
	causeTimeout = 200 * time.Millisecond
)

// Unreachable reports whether there has been no connection to an external etcd for a
// while. The log has the reason.
func (s *Store) Unreachable() bool { return s.unreachable.Load() }

// awaitConnection waits for a connection. It logs when no endpoint of an external etcd can be
// reached, and why: the requests that wait for the connection fail only seconds later, and without
// the reason. It returns false if ctx is done.
func (s *Store) awaitConnection(ctx context.Context, conn *grpc.ClientConn) bool {
	began := time.Now()
	for pause := outageGrace; !becomesReady(ctx, conn, pause); pause = min(2*pause, maxOutagePause) {
		if ctx.Err() != nil {
			return false
		}
		s.unreachable.Store(true)
		s.log.Warn("cannot reach etcd", "endpoints", s.client.Endpoints(), "since", began, "error", connectionError(ctx, conn))
	}
	if s.unreachable.Swap(false) {
		s.log.Info("etcd can be reached again", "after", time.Since(began).Round(time.Millisecond))
	}
	return ctx.Err() == nil
}

// becomesReady waits for a connection, for at most the given time.
func becomesReady(ctx context.Context, conn *grpc.ClientConn, atMost time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, atMost)
	defer cancel()
	for state := conn.GetState(); state != connectivity.Ready; state = conn.GetState() {
		if state == connectivity.Idle {
			conn.Connect()
		}
		if !conn.WaitForStateChange(ctx, state) {
			return false
		}
	}
	return true
}

// connectionError returns why there is no connection. Only the error of a request contains it.
func connectionError(ctx context.Context, conn *grpc.ClientConn) error {
	ctx, cancel := context.WithTimeout(ctx, causeTimeout)
	defer cancel()
	_, err := etcdserverpb.NewMaintenanceClient(conn).Status(ctx, &etcdserverpb.StatusRequest{}, grpc.WaitForReady(false))
	return err
}
