package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/fanoutd/fanoutd/internal/store"
)

// storeCollector reads the counters of requests to etcd, and the size of an embedded etcd.
type storeCollector struct {
	store *store.Store
	families

	requests, errors   *family
	size, inUse, quota *family
	diskFree, diskFull *family
}

func newStoreCollector(st *store.Store) *storeCollector {
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
	for _, op := range store.Operations {
		calls := c.store.Calls(op)
		send(to, c.requests, calls.All, string(op))
		send(to, c.errors, calls.Failed, string(op))
	}
	if db, ok := c.store.Database(); ok {
		send(to, c.size, db.Size)
		send(to, c.inUse, db.InUse)
		send(to, c.quota, db.Quota)
		send(to, c.diskFree, db.DiskFree)
		send(to, c.diskFull, boolValue(db.DiskFull))
	}
}
