package metrics

import (
	"github.com/fanoutd/fanoutd/internal/audit"
	"github.com/fanoutd/fanoutd/internal/server/quota"
)

// limits sends the usage of limits.
func (s scrape) limits(u quota.Usage) {
	gauge(s, "connections", "Open client connections, including HTTP.", u.Connections)
	if u.MaxConnections > 0 {
		gauge(s, "connections_max", "Client connections that the server accepts, including HTTP. Missing without a limit.", u.MaxConnections)
	}
	for limit, n := range u.RefusedConnections {
		counter(s.with("limit", string(limit)), "connections_refused_total", "Connections refused or closed because of a limit, by limit.", n)
	}
	counter(s, "turn_waits_total", "Waits of more than 10 ms until a connection could begin new requests or watches, because the processors were busy.", u.TurnWaits)
	counter(s, "accept_failures_total", "Failed attempts to accept a connection for lack of file descriptors or memory.", u.AcceptFailures)
	gauge(s, "watching_clients", "Clients with watches: identities, or hosts of unauthenticated clients.", u.WatchClients)
	gauge(s, "waits", "Open requests that wait until watches have applied a revision.", u.Waits)
	gauge(s, "watching_selectors", "Distinct selectors of watches, except selectors for one value of a label or of an indexed field.", u.Selectors)
	for limit, n := range u.Refused {
		counter(s.with("reason", string(limit.Reason())).with("limit", string(limit)), "refused_total", "Requests refused because of a limit, by reason and limit.", n)
	}
	gauge(s, "snapshots_sending", "Snapshots and deltas that are being sent.", u.Snapshots)
	gauge(s, "snapshots_waiting", "Snapshots and deltas that wait for a snapshot slot.", u.SnapshotsWaiting)
	gauge(s, "list_bytes", "Memory of List responses and answers to waits that have not been sent yet.", u.ListBytes)
	gauge(s, "lists_waiting", "List requests and waits that wait for memory.", u.ListsWaiting)
	gauge(s, "request_bytes", "Memory reserved for incoming requests.", u.RequestBytes)
	gauge(s, "requests_waiting", "Requests that wait for memory.", u.RequestsWaiting)
}

// audit sends the counters of the audit log.
func (s scrape) audit(log *audit.Log) {
	written, lost := log.Count()
	counter(s, "audit_records_total", "Records that the audit log has written. Missing without an audit log.", written)
	counter(s, "audit_records_lost_total", "Audit records that could not be written. Missing without an audit log.", lost)
}
