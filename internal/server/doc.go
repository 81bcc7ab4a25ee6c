// Package server serves the protocol fanout.v1 over gRPC. It is the edge: here
// requests are checked before they cost anything, and here errors become statuses.
//
// Get and List read a state of the cacher; Watch registers with the dispatcher
// and then only carries its messages to the stream; Put, Delete and Transact go
// to the store. None of them marshals an object: a codec of our own passes
// ready-made bytes through (see package wire).
package server
