package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/fanoutd/fanoutd/internal/object"
)

// Store is what the metrics need of a store.
type Store interface {
	// Calls calls f with the number of requests of each operation so far, and of those that failed.
	Calls(f func(operation string, all, failed int64))

	// Database returns false if the store has no database in this process.
	Database() (object.Database, bool)
}

// storeCollector reads the counters of requests to etcd, and the size of an embedded etcd.
type storeCollector struct {
	store Store
	families

	requests, errors   *family
	size, inUse, quota *family
	diskFree, diskFull *family
}

func newStoreCollector(st Store) *storeCollector {
	c := &storeCollector{store: st}
	c.requests = c.counter("etcd_requests_total", "Requests to etcd by operation: revision, list (one page), commit, watch (opened).", "operation")
	c.errors = c.counter("etcd_request_errors_total", "Failed requests to etcd and broken watches. Failed preconditions and compacted history do not count.", "operation")
	c.size = c.gauge("embedded_etcd_db_bytes", "Size of the database file of the embedded etcd. Missing with an external etcd.")
	c.inUse = c.gauge("embedded_etcd_db_in_use_bytes", "Used part of the database file of the embedded etcd.")
	c.quota = c.gauge("embedded_etcd_db_quota_bytes", "Database size at which the embedded etcd refuses writes.")
	c.diskFree = c.gauge("embedded_etcd_disk_free_bytes", "Free space of the disk of the embedded etcd.")
	c.diskFull = c.gauge("embedded_etcd_disk_full", "1 while the embedded etcd refuses puts because its disk is nearly full, else 0.")
	return c
}

// Describe implements [prometheus.Collector].
func (c *storeCollector) Describe(to chan<- *prometheus.Desc) { c.describe(to) }

// Collect implements [prometheus.Collector].
func (c *storeCollector) Collect(to chan<- prometheus.Metric) {
	c.store.Calls(func(operation string, all, failed int64) {
		send(to, c.requests, all, operation)
		send(to, c.errors, failed, operation)
	})
	if db, ok := c.store.Database(); ok {
		send(to, c.size, db.Size)
		send(to, c.inUse, db.InUse)
		send(to, c.quota, db.Quota)
		send(to, c.diskFree, db.DiskFree)
		send(to, c.diskFull, boolValue(db.DiskFull))
	}
}
