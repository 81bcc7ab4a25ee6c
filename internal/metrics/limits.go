package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/fanoutd/fanoutd/internal/audit"
	"github.com/fanoutd/fanoutd/internal/server"
)

// limitCollector reads what is taken of the limits, and what the audit log has
// written.
type limitCollector struct {
	server *server.Server
	audit  *audit.Log // nil: there is none
	families

	connections, clients, refused *family
	selectors                     *family
	snapshots, snapshotsWaiting   *family
	listBytes, listsWaiting       *family
	requestBytes, requestsWaiting *family
	records, lost                 *family
}

func newLimitCollector(srv *server.Server, log *audit.Log) *limitCollector {
	c := &limitCollector{server: srv, audit: log}
	c.connections = c.gauge("connections", "Connections of clients, those of HTTP included.")
	c.clients = c.gauge("watching_clients", "Clients that have watches: identities, or hosts of those that have shown none.")
	c.selectors = c.gauge("watching_selectors", "Different selectors of watches, but for those that ask for one value of a label or an indexed field.")
	c.refused = c.counter("refused_total", "Requests that were refused because a limit was reached, by reason.", "reason")
	c.snapshots = c.gauge("snapshots_sending", "Snapshots and differences that are being sent.")
	c.snapshotsWaiting = c.gauge("snapshots_waiting", "Snapshots and differences that wait for their turn.")
	c.listBytes = c.gauge("list_bytes", "Memory of the responses of lists that have not been sent yet.")
	c.listsWaiting = c.gauge("lists_waiting", "Lists that wait for room.")
	c.requestBytes = c.gauge("request_bytes", "Room that requests have which are on their way.")
	c.requestsWaiting = c.gauge("requests_waiting", "Requests that wait for room.")
	c.records = c.counter("audit_records_total", "Records that the audit log has written. Missing where there is none.")
	c.lost = c.counter("audit_records_lost_total", "Records that could not be written. Missing as above.")
	return c
}

// Describe implements [prometheus.Collector].
func (c *limitCollector) Describe(to chan<- *prometheus.Desc) { c.describe(to) }

// Collect implements [prometheus.Collector].
func (c *limitCollector) Collect(to chan<- prometheus.Metric) {
	u := c.server.Usage()
	send(to, c.connections, u.Connections)
	send(to, c.clients, u.WatchClients)
	send(to, c.selectors, u.Selectors)
	for reason, n := range u.Refused {
		send(to, c.refused, n, string(reason))
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
