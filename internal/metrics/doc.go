// Package metrics says in Prometheus' form how the server does. Next to nothing is
// counted for it: what it shows is read when somebody asks, from the states, logs and
// sessions that are there anyway. The little that is counted on the way of an event is
// counted by whoever owns it (see the package server's tally).
//
// The registry is the server's own; the default one has whatever libraries put there.
// docs/observability.md lists all metrics, and a test compares it with what is served.
// Labels are names of resources and words of a fixed list, never keys or clients: what
// a client chooses must not make the number of series grow.
package metrics
