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

// monitor verifies the epoch after every reconnect. etcd must stop to be restored, so
// this usually detects a restored etcd before anyone writes to it.
func (s *Store) monitor(ctx context.Context) {
	conn := s.client.ActiveConnection()
	state := conn.GetState()
	interval := monitorInterval
	for ctx.Err() == nil {
		wait, cancel := context.WithTimeout(ctx, interval)
		changed := conn.WaitForStateChange(wait, state)
		cancel()
		state = conn.GetState()
		if ctx.Err() != nil || changed && state != connectivity.Ready {
			continue
		}
		interval = monitorInterval
		call, cancel := context.WithTimeout(ctx, callTimeout)
		if err := s.epochs.Verify(call); err != nil {
			s.log.Debug("could not verify the epoch of etcd", "error", err)
			interval = monitorRetry
		}
		cancel()
	}
}
