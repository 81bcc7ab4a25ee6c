// Package watch serves the Watch method: one watch for each RPC.
//
//	handler (gRPC) ── watch, in the registry
//	    │      └───────── sink ── gRPC stream
//	    └─ dispatch.Stream ──┘ TrySend, SendBatch
//
// gRPC calls the handler for each watch. First, interceptors admit the request. Then the
// handler registers the RPC, and the registry admits the watch: it checks the right to the resource
// and the scope, parses the request, and takes the quotas. From then on,
// [dispatch.Stream.Serve] runs on the goroutine of the handler until the watch ends.
//
// A sink is the dispatch.StreamSink of the watch. It limits the bytes in flight with write fences,
// counts the messages, and traces them.
//
// A watchContext ends a watch when the client has gone, the time limit is reached,
// credentials or rights are lost, an operator ends the watch, or the server drains. If the
// server ends a watch, the client gets a last message with the position to resume from.
// There is no last message if the watch has lost its rights, or if its position may be wrong.
//
// # Goroutines and locks
//
// Either the handler or a worker uses a sink, never both at the same time; see
// package dispatch. The mutex of a watch guards what the client has reported.
//
// For each watch, this package allocates one large object, the handler, which contains the
// watch, the sink and the watchContext. Ten thousand handlers do not fit into the
// caches of a processor. So the fields that change with each message are in one cache line.
package watch
