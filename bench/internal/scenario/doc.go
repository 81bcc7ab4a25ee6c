// Package scenario runs benchmarks: it starts a system, its watchers and a writer, and
// records the measurements.
package scenario
