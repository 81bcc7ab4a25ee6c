// Package pipe reads and writes files that may be named pipes or devices. Whatever waits for the other end of a pipe
// stops waiting when a context ends, so that one signal ends a command.
package pipe
