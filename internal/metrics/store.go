package metrics

import "github.com/fanoutd/fanoutd/internal/object"

// Store is what the metrics need of a store.
type Store interface {
	// Calls calls f with the number of requests of each operation so far, and of those that failed.
	Calls(f func(operation string, all, failed int64))

	// Database returns false if the store has no database in this process.
	Database() (object.Database, bool)

	// Writes is zero if the store is not a member of a cluster in this process.
	Writes() object.WriteCounts
}

// store sends the counters of requests to etcd, and the size of an embedded etcd.
func (s scrape) store(st Store) {
	st.Calls(func(operation string, all, failed int64) {
		s := s.with("operation", operation)
		counter(s, "etcd_requests_total", "Requests to etcd by operation: revision, list (one page), commit, watch (opened).", all)
		counter(s, "etcd_request_errors_total", "Failed requests to etcd and broken watches. Failed preconditions and compacted history do not count.", failed)
	})
	writes := st.Writes()
	counter(s, "cluster_writes_sent_again_total", "Attempts after the first one to send a write to the leader of the cluster.", writes.SentAgain)
	counter(s, "cluster_writes_not_applied_total", "Writes to a cluster that ended without a leader, and were certainly not applied.", writes.NotApplied)
	counter(s, "cluster_writes_unknown_total", "Writes to a cluster of which it is not known whether they were applied, because their leader was lost.", writes.Unknown)
	if db, ok := st.Database(); ok {
		gauge(s, "embedded_etcd_db_bytes", "Size of the database file of the embedded etcd. Missing with an external etcd.", db.Size)
		gauge(s, "embedded_etcd_db_in_use_bytes", "Used part of the database file of the embedded etcd.", db.InUse)
		gauge(s, "embedded_etcd_db_quota_bytes", "Database size at which the embedded etcd refuses writes.", db.Quota)
		gauge(s, "embedded_etcd_disk_free_bytes", "Free space of the disk of the embedded etcd.", db.DiskFree)
		gauge(s, "embedded_etcd_disk_full", "1 while the embedded etcd refuses puts because its disk is nearly full, else 0.", boolValue(db.DiskFull))
	}
}
