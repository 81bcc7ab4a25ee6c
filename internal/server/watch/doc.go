// Package watch serves the Watch method.
//
//	Service ── Registry ── Entry, one for each watch
//	   └─ handler (gRPC) ── streamSender ── gRPC stream
//	         └─ dispatch.Watcher ──┘ Send, TrySend
//
// [Service] is what the server has: the handler of the method, the registry of the watches,
// their counters, and the workers. gRPC calls the handler for each watch. The interceptors
// admit the request. The handler then checks the right, parses the request, registers the
// watch and reserves its quota. After that [dispatch.Watcher.Serve] runs on the goroutine of
// the handler until the watch ends.
//
// A streamSender is the sink of the watcher. It bounds the bytes in flight with write
// fences, counts the messages, and traces them. The last message of a watch has the position
// to resume from.
//
// A watchContext ends a watch: when its client has gone, it reaches its time limit, it loses
// its credentials or rights, an operator ends it, or the server drains.
//
// # Goroutines and locks
//
// The handler and a worker use a streamSender in turns; see package dispatch. The lock of an
// Entry guards what operators see of a watch. A worker takes it once for each message, a
// handler twice. The registry's lock is taken when a watch begins or ends and when operators
// look.
//
// What this package keeps of a watch is one allocation, the handler. Ten thousand of them do
// not fit into the caches of a processor, so the fields that change with each message are in
// two cache lines.
package watch
