package store

import (
	"context"
	"time"

	"google.golang.org/grpc/connectivity"
)

// monitorInterval is the time between inspections of etcd while the connection is
// stable. A proxy can exchange the etcd behind it without breaking the connection.
const monitorInterval = time.Minute

// monitorRetry is the time before a failed inspection is repeated.
const monitorRetry = time.Second

// monitor follows the connection to an external etcd. It verifies the epoch after every
// reconnect: etcd must stop to be restored, so this usually detects a restored etcd before anyone
// writes to it.
func (s *Store) monitor(ctx context.Context) {
	conn := s.client.ActiveConnection()
	for s.awaitConnection(ctx, conn) {
		interval := monitorInterval
		call, cancel := context.WithTimeout(ctx, callTimeout)
		if err := s.epochs.Verify(call); err != nil {
			s.log.Debug("could not verify the epoch of etcd", "error", err)
			interval = monitorRetry
		}
		cancel()
		stable, cancel := context.WithTimeout(ctx, interval)
		conn.WaitForStateChange(stable, connectivity.Ready)
		cancel()
	}
}
