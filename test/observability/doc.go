// Package observability tests the metrics and traces of a running fanoutd, and that the
// dashboard and the alerts in deploy/ use metrics that exist.
package observability
