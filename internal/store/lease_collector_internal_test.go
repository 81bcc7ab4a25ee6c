package store

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// A request brings the next sweep forward, and does not postpone one that is due before.
func TestRequestedSweepIsNotLaterThanTheNextOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var etcd listedLeases
		c := newLeaseCollector(&clientv3.Client{Lease: &etcd}, slog.New(slog.DiscardHandler))
		c.start()
		defer c.close()
		c.sweepSoon()
		for n, wait := range []time.Duration{firstSweep, sweepRetry} {
			time.Sleep(wait)
			synctest.Wait()
			if got, want := etcd.lists.Load(), int64(n+1); got != want {
				t.Fatalf("sweeps after another %v: got %d, want %d", wait, got, want)
			}
			c.sweepSoon()
		}
	})
}

// listedLeases is an etcd without leases.
type listedLeases struct {
	clientv3.Lease
	lists atomic.Int64
}

func (l *listedLeases) Leases(context.Context) (*clientv3.LeaseLeasesResponse, error) {
	l.lists.Add(1)
	return &clientv3.LeaseLeasesResponse{}, nil
}
