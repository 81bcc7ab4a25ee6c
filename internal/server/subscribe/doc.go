// Package subscribe serves the Subscribe method: many watches on one stream.
//
//	Service ── stream, one for each RPC ── table ── entry, one for each watch
//	             ├─ reader: requests ──> start, stop, report
//	             ├─ waits: starts that wait for etcd
//	             └─ dispatch.Stream ──> sink ──> gRPC stream
//
// [dispatch.Stream] makes the responses, and one worker sends them. It owns the cursors, the order
// on the wire and the times of ends. This package owns everything else: requests, ids, rights,
// quotas, the registry, reports, and the encoding of responses. It shares with the
// Watch method, in package watch: the registry, the counters, the parsing of requests,
// the window of bytes in flight, and reports.
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
