// Package process starts and ends the processes of a benchmark, and reads the kernel's
// counters of them.
package process
