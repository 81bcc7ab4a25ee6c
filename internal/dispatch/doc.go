// Package dispatch delivers the changes of one resource to its watchers. The cost of a
// change is paid once per distinct interest, not once per watcher.
//
//	cacher.State ──> Dispatcher.Run ──index──> feed ──append──> log
//	                                             |
//	                                           group ──batch──> watchers ──> sinks
//
// A [Dispatcher] reads the cacher's window of recent changes. For each change, an index
// names the feeds whose interest the change may concern. Each of these feeds filters the
// change once, encodes the event once and appends the bytes to its log. Appending never
// waits for a watcher. One pass over all new changes is called a round.
//
// A [Watcher] is a cursor: everything up to its revision has been delivered. The next
// message of a watcher has the events between its cursor and the end of the log, up to a size
// limit. So a busy system sends many events in one message, and a lone event is sent at once.
// If a client does not read, its watcher costs a cursor, a few messages in flight, and at
// most one part of a catch-up.
//
// # Sources of a watcher
//
// Each time a watcher with a cursor needs a message, it tries three sources in this order:
//
//  1. the log of its feed, if the log reaches back to the cursor;
//  2. the cacher's window, if the window reaches back to the cursor. The watcher then filters
//     and encodes the changes until it has caught up with the log. Watchers that read the
//     window from the same revision share the encoded events;
//  3. a catch-up of kind DELTA or RESET, which leads to the state at one revision.
//
// A relist finds the objects that have changed, but not the history of the changes. So after
// a relist, the cacher's window and all logs start empty, and every watcher needs a catch-up.
//
// A watcher without a cursor begins with a RESET. A watcher with Options.Latest reads the
// window instead of the log if several events of one key are pending. Watchers that catch up
// at the same time share the encoded parts (catchUpCache). The position in a message promises
// that every event up to this position has been sent, either in this message or in an earlier
// one.
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
//     At the end of a round, each worker gets its groups that have new events. The worker
//     looks up the next [Batch] of a group once and offers the batch to each member, one
//     connection after another.
//
// A member stays in its group while it needs the same batches as the group. If a member needs
// another batch, the worker serves it alone (Watcher.run) until it can join the group again.
// If a member needs a catch-up, the worker hands the watcher back to the handler.
//
// # Streams
//
// A [Stream] serves many watches, of one or more dispatchers, through one [StreamSink]. Its live
// watches with the same interest and the same options share a cursor, and a watch that begins where
// such a cursor is joins it at once. A round marks the cursors
// whose feeds have changed. When the sink has room, the worker chooses a cut, reads all marked
// cursors up to the cut, and sends one [Response]. So the events of a revision leave together, and
// a client that does not read costs nothing for each watch. The goroutine of [Stream.Serve] makes
// the parts of catch-ups. docs/dev/subscribe.md explains the design.
//
// # Goroutines and locks
//
// Only Dispatcher.Run appends to feeds. The dispatcher's mutex guards the set of feeds. Run
// holds the mutex for a round. A watcher takes the mutex at its beginning and at its end,
// and when it starts a RESET or a DELTA. It also takes the mutex when it reads the window and
// the catchUpCache of its feed is empty. Readers of logs take no lock, because a feed publishes frozen views of its log.
// Only the worker of a group uses the members of the group. Other goroutines read only the
// number of members. The workers must outlive all calls of Serve.
package dispatch
