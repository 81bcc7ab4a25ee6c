// Package peer runs the measured systems: fanoutd, its alternatives, and the floor. Each
// driver starts the server processes of a system, and returns the address for watchers and
// a writer.
package peer
