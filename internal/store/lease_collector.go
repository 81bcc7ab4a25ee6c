package store

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// leaseCollector revokes leases of fanoutd that no key is attached to. etcd keeps such a
// lease until it expires.
//
// Most of them are known: a write replaces or deletes the key of a lease, or fails after
// it was granted one. Workers revoke these right away, but no write waits for them. A
// sweep finds the others: leases of processes that were killed, of writes without an
// answer, and of keys that another program has deleted.
type leaseCollector struct {
	client   *clientv3.Client
	log      *slog.Logger
	maxQueue int // if the queue is full, writes revoke leases themselves

	ctx     context.Context // of the workers and the sweep
	cancel  context.CancelFunc
	running sync.WaitGroup // the workers and the sweep
	soon    chan struct{}  // requests a sweep; capacity 1

	mu      sync.Mutex
	queue   []orphan // guarded by mu
	workers int      // guarded by mu
	closed  bool     // guarded by mu
}

// orphan is a lease that may have lost its key, or keys whose former leases may have.
type orphan struct {
	lease clientv3.LeaseID // 0: see keys

	// The leases of these keys at this revision.
	keys []string
	at   int64
}

const (
	// maxLeaseWorkers is how many leases are revoked at the same time. A put with a time to
	// live takes about as long as a revocation, so as many busy writers are kept up with.
	maxLeaseWorkers = 16

	maxOrphans = 10_000

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
	c := &leaseCollector{client: client, log: log, maxQueue: maxOrphans, soon: make(chan struct{}, 1)}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// start starts the sweeps.
func (c *leaseCollector) start() { c.running.Go(c.sweepRepeatedly) }

// close stops all goroutines. The next process finds the leases that are left.
func (c *leaseCollector) close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.cancel()
	c.running.Wait()
}

// add revokes leases that may have lost their keys, in the background. ctx limits the
// time that add takes if the queue is full.
func (c *leaseCollector) add(ctx context.Context, orphans ...orphan) {
	for _, o := range orphans {
		if !c.enqueue(o) {
			c.collect(ctx, o)
		}
	}
}

// enqueue returns false if the queue is full.
func (c *leaseCollector) enqueue(o orphan) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return true
	}
	if len(c.queue) >= c.maxQueue {
		return false
	}
	c.queue = append(c.queue, o)
	if c.workers < maxLeaseWorkers {
		c.workers++
		c.running.Go(c.work)
	}
	return true
}

// work collects orphans until the queue is empty.
func (c *leaseCollector) work() {
	for {
		c.mu.Lock()
		if len(c.queue) == 0 || c.closed {
			c.workers--
			c.mu.Unlock()
			return
		}
		o := c.queue[0]
		c.queue = c.queue[1:]
		c.mu.Unlock()
		c.collect(c.ctx, o)
	}
}

// collect revokes an orphan if it has no key. A failure is not reported, because the next
// sweep finds the lease.
func (c *leaseCollector) collect(ctx context.Context, o orphan) {
	ctx, cancel := context.WithTimeout(ctx, collectTimeout)
	defer cancel()
	leases := []clientv3.LeaseID{o.lease}
	if o.lease == clientv3.NoLease {
		var err error
		if leases, err = c.formerLeases(ctx, o); err != nil {
			c.failed("could not read the leases of replaced keys", err)
			return
		}
	}
	for _, id := range leases {
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

// formerLeases returns the own leases that the keys of an orphan had at its revision.
func (c *leaseCollector) formerLeases(ctx context.Context, o orphan) ([]clientv3.LeaseID, error) {
	reads := make([]clientv3.Op, len(o.keys))
	for i, key := range o.keys {
		reads[i] = readLease(key, clientv3.WithRev(o.at))
	}
	resp, err := c.client.Txn(ctx).Then(reads...).Commit()
	if err != nil {
		return nil, err
	}
	var leases []clientv3.LeaseID
	for _, r := range resp.Responses {
		leases = append(leases, ownLeases(r.GetResponseRange().GetKvs())...)
	}
	slices.Sort(leases)
	return slices.Compact(leases), nil
}

// sweepSoon requests a sweep.
func (c *leaseCollector) sweepSoon() {
	select {
	case c.soon <- struct{}{}:
	default: // requested already
	}
}

func (c *leaseCollector) sweepRepeatedly() {
	next := time.Now().Add(firstSweep)
	logged := false
	for {
		timer := time.NewTimer(time.Until(next))
		select {
		case <-c.ctx.Done():
			timer.Stop()
			return
		case <-c.soon:
			timer.Stop()
			if soon := time.Now().Add(sweepRetry); soon.Before(next) {
				next = soon
			}
			continue
		case <-timer.C:
		}
		err := c.sweep(c.ctx, sweepGrace)
		switch {
		case c.ctx.Err() != nil:
			return
		case err == nil:
			// Servers that started together should not sweep together for ever.
			next = time.Now().Add(sweepInterval + rand.N(sweepInterval/4))
		case errors.Is(err, rpctypes.ErrPermissionDenied):
			if !logged {
				logged = true
				c.log.Warn("may not list the leases of etcd: a lease that a killed server leaves behind stays until it expires", "error", err)
			}
			next = time.Now().Add(sweepInterval)
		default:
			c.log.Debug("could not look for unused leases", "error", err)
			next = time.Now().Add(sweepRetry)
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
	select {
	case <-time.After(grace):
	case <-ctx.Done():
		return ctx.Err()
	}
	for _, id := range unused {
		c.collect(ctx, orphan{lease: id})
	}
	c.log.Info("looked for leases without a key and revoked them", "leases", len(unused))
	return nil
}
