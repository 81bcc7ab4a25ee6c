package store

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fanoutd/fanoutd/internal/backoff"
)

// leaseCollector revokes leases of fanoutd that no key is attached to. etcd keeps such a
// lease until it expires.
//
// Most of them are known: a write replaces or deletes the key of a lease, or fails after
// it was granted one. Workers revoke these right away. A write does so itself only if their
// queue is full. But a write with too many operations to read the leases of its keys in the
// same transaction waits for another read, see replacedLeases. A sweep finds the others: leases
// of processes that were killed, of writes without an answer, and of keys that another
// program has deleted.
type leaseCollector struct {
	client *clientv3.Client
	log    *slog.Logger
	queue  chan clientv3.LeaseID // if it is full, writes revoke leases themselves
	soon   chan struct{}         // requests a sweep; capacity 1

	ctx     context.Context // of the workers and the sweep
	cancel  context.CancelFunc
	running sync.WaitGroup // the workers and the sweep
}

const (
	// leaseWorkers is how many leases are revoked at the same time. A put with a time to
	// live takes about as long as a revocation, so as many busy writers are kept up with.
	leaseWorkers = 16

	maxQueue = 10_000

	// collectTimeout limits the requests for one lease. The sweep finds it again.
	collectTimeout = callTimeout

	firstSweep    = 10 * time.Second // after the start
	sweepInterval = time.Hour
	sweepRetry    = time.Minute // after a failed sweep, and after a request for one

	// sweepGrace is the time between two looks at a lease. If it has no key both times, it
	// is revoked. A write attaches a key within callTimeout of the grant.
	sweepGrace = time.Minute
)

func newLeaseCollector(client *clientv3.Client, log *slog.Logger) *leaseCollector {
	c := &leaseCollector{client: client, log: log, queue: make(chan clientv3.LeaseID, maxQueue), soon: make(chan struct{}, 1)}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// start starts the workers and the sweeps.
func (c *leaseCollector) start() {
	for range leaseWorkers {
		c.running.Go(c.work)
	}
	c.running.Go(c.sweepRepeatedly)
}

// close stops all goroutines. The next process finds the leases that are left.
func (c *leaseCollector) close() {
	c.cancel()
	c.running.Wait()
}

// add revokes leases that may have lost their keys, in the background. ctx limits the
// time that add takes if the queue is full.
func (c *leaseCollector) add(ctx context.Context, leases []clientv3.LeaseID) {
	for _, id := range leases {
		select {
		case c.queue <- id:
		default:
			c.collect(ctx, id)
		}
	}
}

func (c *leaseCollector) work() {
	for {
		select {
		case id := <-c.queue:
			c.collect(c.ctx, id)
		case <-c.ctx.Done():
			return
		}
	}
}

// collect revokes a lease if it has no key. A failure is not reported, because the next
// sweep finds the lease.
func (c *leaseCollector) collect(ctx context.Context, id clientv3.LeaseID) {
	ctx, cancel := context.WithTimeout(ctx, collectTimeout)
	defer cancel()
	// Another program may have attached a key to the lease, and etcd may have been
	// restored since the lease lost its key.
	unused, err := c.isUnused(ctx, id)
	if err == nil && unused {
		_, err = c.client.Revoke(ctx, id)
	}
	if err != nil && !errors.Is(err, rpctypes.ErrLeaseNotFound) {
		c.failed("could not revoke an unused lease", err)
	}
}

// failed requests a sweep, unless the collector is being closed.
func (c *leaseCollector) failed(what string, err error) {
	if c.ctx.Err() == nil {
		c.log.Debug(what, "error", err)
		c.sweepSoon()
	}
}

// isUnused reports whether a lease exists and has no key.
func (c *leaseCollector) isUnused(ctx context.Context, id clientv3.LeaseID) (bool, error) {
	lease, err := c.client.TimeToLive(ctx, id, clientv3.WithAttachedKeys())
	switch {
	case errors.Is(err, rpctypes.ErrPermissionDenied):
		return false, nil // it has a key that only another user of etcd may read
	case err != nil:
		return false, err
	}
	return lease.TTL >= 0 && len(lease.Keys) == 0, nil
}

// sweepSoon requests a sweep.
func (c *leaseCollector) sweepSoon() {
	select {
	case c.soon <- struct{}{}:
	default: // requested already
	}
}

func (c *leaseCollector) sweepRepeatedly() {
	wait := firstSweep
	logged := false
	for {
		due := time.Now().Add(wait)
		select {
		case <-time.After(wait):
		case <-c.soon:
			if !backoff.Sleep(c.ctx, min(time.Until(due), sweepRetry)) {
				return
			}
		case <-c.ctx.Done():
			return
		}
		err := c.sweep(c.ctx, sweepGrace)
		switch {
		case c.ctx.Err() != nil:
			return
		case err == nil:
			// Servers that started together should not sweep together for ever.
			wait = sweepInterval + rand.N(sweepInterval/4)
		case errors.Is(err, rpctypes.ErrPermissionDenied):
			if !logged {
				logged = true
				c.log.Warn("may not list the leases of etcd: a lease that a killed server leaves behind stays until it expires", "error", err)
			}
			wait = sweepInterval
		default:
			c.log.Debug("could not look for unused leases", "error", err)
			wait = sweepRetry
		}
	}
}

// sweep looks for leases of fanoutd without a key, and revokes those that still have none
// after the grace time.
//
// A write that is under way for longer than the grace time may attach its key between the
// last look and the revocation. etcd then deletes the key at once. The client has already
// got the error that the outcome of its write is unknown.
func (c *leaseCollector) sweep(ctx context.Context, grace time.Duration) error {
	call, cancel := context.WithTimeout(ctx, collectTimeout)
	all, err := c.client.Leases(call)
	cancel()
	if err != nil {
		return err
	}
	var unused []clientv3.LeaseID
	for _, lease := range all.Leases {
		if !isOwnLease(lease.ID) {
			continue
		}
		call, cancel := context.WithTimeout(ctx, collectTimeout)
		is, err := c.isUnused(call, lease.ID)
		cancel()
		if err != nil && !errors.Is(err, rpctypes.ErrLeaseNotFound) {
			return err
		}
		if is {
			unused = append(unused, lease.ID)
		}
	}
	if len(unused) == 0 {
		return nil
	}
	if !backoff.Sleep(ctx, grace) {
		return ctx.Err()
	}
	for _, id := range unused {
		c.collect(ctx, id)
	}
	c.log.Info("looked for leases without a key and revoked them", "leases", len(unused))
	return nil
}
