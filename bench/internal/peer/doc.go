// Package peer runs what is measured: fanoutd, what its users would pick instead, and
// the floor below all of them. Each driver starts its server processes, says where
// watchers connect, and how one writes to what is behind the servers.
package peer
