// Package process starts the processes of a benchmark, ends them, and reads what the
// kernel counts of them.
package process
