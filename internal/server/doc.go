// Package server serves the protocol fanout.v1 over gRPC. It is the edge: here
// requests are checked before they cost anything, and here errors become statuses.
//
// Get and List read a state of the cacher; Watch registers with the dispatcher
// and then only carries its messages to the stream; Put, Delete and Transact go
// to the store. None of them marshals an object: a codec of our own passes
// ready-made bytes through (see package wire).
//
// A watch has a handler, which gRPC calls, and shares a worker with all watches of its
// connection (see package lane). What happens is sent by the worker, which waits for
// nobody; catch-ups, and all else that may take time, are sent by the handler, which
// waits while the worker serves. What is on its way to a client that does not read is
// bounded, and how much that is gRPC tells by giving back the last piece of a message
// (flight).
package server
