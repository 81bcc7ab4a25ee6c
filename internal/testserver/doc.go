// Package testserver runs a server over a store in memory, for unit tests of programs that use a client.
//
// It is the real server. Only etcd is replaced. A [Server] can do what a real one does too rarely for a test:
// lose its connections or etcd, refuse requests, expire positions, and begin a new epoch. Package clienttest
// runs it inside a test in Go, and the command fanouttest as a process, for tests in other languages.
//
// A Server owns the goroutines of its running instance, for which [Server.Stop] waits, and the one that accepts
// connections, for which [Server.Close] waits.
package testserver
