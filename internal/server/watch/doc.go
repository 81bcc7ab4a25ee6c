// Package watch serves the Watch method: one watch for each RPC.
//
//	handler (gRPC) ── watch, in the registry
//	    │      └───── streamSender ── gRPC stream
//	    └─ dispatch.Watcher ──┘ Send, TrySend
//
// gRPC calls the handler for each watch. First, interceptors admit the request. Then the
// handler registers the RPC, and the registry admits the watch: it checks the right to the resource
// and the scope, parses the request, and takes the quotas. From then on,
// [dispatch.Watcher.Serve] runs on the goroutine of the handler until the watch ends. For a
// resource without a cache, serveUncached runs instead.
//
// A streamSender is the sink of the watcher. It limits the bytes in flight with write fences,
// counts the messages, and traces them.
//
// A watchContext ends a watch when the client has gone, the time limit is reached,
// credentials or rights are lost, an operator ends the watch, or the server drains. If the
// server ends a watch, the handler sends a last message with the position to resume from.
// There is no last message if the watch has lost its rights, or if its position may be wrong.
//
// # Goroutines and locks
//
// Either the handler or a worker uses a streamSender, never both at the same time; see
// package dispatch. The mutex of a watch guards the fields that change with the messages of
// the watch. Operators can read these fields at any time. A worker takes this mutex once for
// each message, a handler twice.
//
// For each watch, this package allocates one large object, the handler, which contains the
// watch, the streamSender and the watchContext. Ten thousand handlers do not fit into the
// caches of a processor. So the fields that change with each message are in two cache lines.
package watch
