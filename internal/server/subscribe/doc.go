// Package subscribe serves the Subscribe method: many watches on one stream.
//
//	Service ── stream, one for each RPC ── table ── watch, one for each watch
//	             ├─ reader: requests ──> start, stop, report
//	             ├─ waits: starts that wait for etcd
//	             └─ dispatch.Stream ──> sink ──> gRPC stream
//
// [dispatch.Stream] makes the responses, and one worker sends them. It owns the cursors, the order
// on the wire and the times of ends. This package owns requests, ids,
// the encoding of responses, and the table of the stream's watches. The registry does what all watches
// have in common: it admits, counts and lists them, and records reports.
//
// # Goroutines and locks
//
// A stream has two goroutines: the handler calls [dispatch.Stream.Serve], and the reader reads
// requests. Starts that wait for etcd share a goroutine for each kind of wait. A watch has no
// goroutine, timer, context or map of its own.
//
// A stream has two locks. stream.calls orders what the dispatch.Stream is asked to do, so a watch
// never ends before it has started. It may be held while a dispatcher finishes a round, so a
// worker never takes it. table.mu guards the watches of the stream. It is held for moments only,
// and a worker takes it once for each response.
package subscribe
