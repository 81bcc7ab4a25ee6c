// Package watch serves the Watch method.
//
//	Service ── Registry ── Entry, one for each watch
//	   └─ handler (gRPC) ── streamSender ── gRPC stream
//	         └─ dispatch.Watcher ──┘ Send, TrySend
//
// [Service] is what the server has: the handler of the method, the registry of the watches,
// their counters, and the workers. gRPC calls the handler for each watch. The handler lets
// the request through the interceptors, parses it, asks for the right, reserves its quota
// and registers the watch. Then [dispatch.Watcher.Serve] runs the watch, and the handler
// waits for it.
//
// A streamSender is the sink of the watcher. It bounds the bytes in flight with write
// fences, counts, and traces. The last message of a watch says where to resume.
//
// A watchContext ends a watch: when its client has gone, its time limit has come, its
// credentials or rights are gone, an operator ends it, or the server drains.
//
// # Goroutines and locks
//
// The handler and a worker use a streamSender in turns; see package dispatch. The lock of an
// Entry guards what operators see of a watch, and is taken once for each message. The
// registry's lock is taken when a watch begins or ends and when operators look.
//
// A watch is one allocation. Ten thousand of them do not fit into the caches of a processor,
// so the fields that a worker reads for each message are in two cache lines.
package watch
