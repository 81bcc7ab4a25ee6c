// Package metrics exports the metrics of the server in Prometheus format.
//
// [New] creates a registry of its own. The default registry is not used because libraries
// register metrics there. [Metrics.Register] adds collectors for the server, its resources,
// the store and the audit log.
//
// The collectors read state that exists anyway when Prometheus scrapes it, so metrics cost
// almost nothing on the path of an event. The few counters on that path belong to the
// packages that update them.
//
// docs/reference/metrics.md lists all metrics, and a test compares it with the served ones.
// Label values are resource names and words from fixed lists, never keys or client names:
// clients must not be able to increase the number of series.
package metrics
