// Package dispatch delivers the changes of one resource to its watchers. The cost of a
// change is paid once per distinct interest, not once per watcher.
//
//	cacher.State ──> Dispatcher.Run ──index──> feed ──append──> log
//	                                             |
//	                                           group ──batch──> watchers ──> sinks
//
// A [Dispatcher] reads the cacher's window of recent changes. For each change, an index
// names the feeds whose interest the change may concern. Each of these feeds filters the
// change once, encodes it once and appends the bytes to its log. Appending never waits for
// a watcher.
//
// A [Watcher] is a cursor: the revision up to which it has delivered everything. Its next
// message is what lies between the cursor and the end of the log, up to a size limit. So
// batches form by themselves when the system is busy, and a lone event leaves at once. A
// watcher whose client does not read costs its cursor, a few messages in flight, and at most
// one part of a catch-up.
//
// # Sources of a watcher
//
// Each time a watcher with a cursor needs a message, it tries three sources in this order:
//
//  1. the log of its feed, if the log reaches back to the cursor;
//  2. the cacher's window, if that does; the watcher then filters and encodes for itself
//     until it has caught up with the log;
//  3. a catch-up of kind DELTA or RESET, made from one state of the cacher.
//
// A watcher without a cursor begins with a RESET. A watcher with Options.Latest takes the
// window instead of the log if there is something to merge. Watchers that catch up at the
// same time share the encoded parts (catchUpCache). A message's position promises that every
// event up to it has been sent, in this message or before.
//
// # Serving a watcher
//
// [Watcher.Serve] sends the messages of a watcher to its [Sink], which the caller provides.
// Either the goroutine that called Serve or a worker owns the watcher, never both:
//
//   - The goroutine of Serve (the handler) sends catch-ups, merged events, and everything
//     else that may take time. It may wait for the client.
//   - A worker sends live events. It belongs to package sendqueue, serves thousands of
//     watchers and must not wait. The watchers of one feed and one worker form a group.
//     An event makes the task of the group ready. The task looks up the next [Batch] once
//     and offers it to each member; members of one connection follow each other.
//
// A member stays in its group while the group's batches are what it needs next. If it needs
// another batch, the worker serves it alone (Watcher.run) until it can join again. If it
// needs a catch-up, the worker hands it back to the handler.
//
// # Goroutines and locks
//
// Only Dispatcher.Run appends to feeds. The dispatcher's mutex guards the set of feeds. Run
// holds it for a round; watchers take it when they begin, end, or start a catch-up. Readers
// of logs take no lock: a feed publishes frozen views of its log. Everything that a group has
// belongs to its worker, except its size. The workers must outlive all calls of Serve.
package dispatch
