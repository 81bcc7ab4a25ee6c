// Package observability tests what operators see of a fanoutd that runs: its metrics,
// its traces, and that the dashboard and the alerts in deploy/ ask for what there is.
package observability
