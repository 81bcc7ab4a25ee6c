package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/fanoutd/fanoutd/internal/audit"
	"github.com/fanoutd/fanoutd/internal/server"
)

// limitCollector reads the usage of limits, and the counters of the audit log.
type limitCollector struct {
	server *server.Server
	audit  *audit.Log // nil: no audit log
	families

	connections, maxConnections   *family
	refusedConnections, failures  *family
	clients, refused              *family
	waits                         *family
	selectors                     *family
	snapshots, snapshotsWaiting   *family
	listBytes, listsWaiting       *family
	requestBytes, requestsWaiting *family
	records, lost                 *family
}

func newLimitCollector(srv *server.Server, log *audit.Log) *limitCollector {
	c := &limitCollector{server: srv, audit: log}
	c.connections = c.gauge("connections", "Open client connections, including HTTP.")
	c.maxConnections = c.gauge("connections_max", "Client connections that the server accepts, including HTTP. Missing without a limit.")
	c.refusedConnections = c.counter("connections_refused_total", "Connections refused or closed because of a limit, by limit.", "limit")
	c.failures = c.counter("accept_failures_total", "Failed attempts to accept a connection for lack of file descriptors or memory.")
	c.clients = c.gauge("watching_clients", "Clients with watches: identities, or hosts of unauthenticated clients.")
	c.waits = c.gauge("waits", "Open requests that wait until watches have applied a revision.")
	c.selectors = c.gauge("watching_selectors", "Distinct selectors of watches, except selectors for one value of a label or of an indexed field.")
	c.refused = c.counter("refused_total", "Requests refused because of a limit, by reason and limit.", "reason", "limit")
	c.snapshots = c.gauge("snapshots_sending", "Snapshots and deltas that are being sent.")
	c.snapshotsWaiting = c.gauge("snapshots_waiting", "Snapshots and deltas that wait for a snapshot slot.")
	c.listBytes = c.gauge("list_bytes", "Memory of List responses and answers to waits that have not been sent yet.")
	c.listsWaiting = c.gauge("lists_waiting", "List requests and waits that wait for memory.")
	c.requestBytes = c.gauge("request_bytes", "Memory reserved for incoming requests.")
	c.requestsWaiting = c.gauge("requests_waiting", "Requests that wait for memory.")
	c.records = c.counter("audit_records_total", "Records that the audit log has written. Missing without an audit log.")
	c.lost = c.counter("audit_records_lost_total", "Audit records that could not be written. Missing without an audit log.")
	return c
}

// Describe implements [prometheus.Collector].
func (c *limitCollector) Describe(to chan<- *prometheus.Desc) { c.describe(to) }

// Collect implements [prometheus.Collector].
func (c *limitCollector) Collect(to chan<- prometheus.Metric) {
	u := c.server.Usage()
	send(to, c.connections, u.Connections)
	if u.MaxConnections > 0 {
		send(to, c.maxConnections, u.MaxConnections)
	}
	for limit, n := range u.RefusedConnections {
		send(to, c.refusedConnections, n, string(limit))
	}
	send(to, c.failures, u.AcceptFailures)
	send(to, c.clients, u.WatchClients)
	send(to, c.waits, u.Waits)
	send(to, c.selectors, u.Selectors)
	for limit, n := range u.Refused {
		send(to, c.refused, n, string(limit.Reason()), string(limit))
	}
	send(to, c.snapshots, u.Snapshots)
	send(to, c.snapshotsWaiting, u.SnapshotsWaiting)
	send(to, c.listBytes, u.ListBytes)
	send(to, c.listsWaiting, u.ListsWaiting)
	send(to, c.requestBytes, u.RequestBytes)
	send(to, c.requestsWaiting, u.RequestsWaiting)
	if c.audit != nil {
		written, lost := c.audit.Count()
		send(to, c.records, written)
		send(to, c.lost, lost)
	}
}
