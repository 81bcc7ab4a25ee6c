// Package dispatch delivers the changes of one resource to its watches. The cost of a
// change is paid once per distinct interest, not once per watcher.
//
//	cacher.State ──> Dispatcher.Run ──index──> feed ──append──> log
//	                                             |
//	                                           group ──batch──> cursors ──> sinks
//
// A [Dispatcher] reads the cacher's window of recent changes. For each change, an index
// names the feeds whose interest the change may concern. Each of these feeds filters the
// change once, encodes the event once and appends the bytes to its log. Appending never
// waits for a watcher. One pass over all new changes is called a round.
//
// A cursor is how far a watch has been served: everything up to its position has been delivered. The
// next message has the events between this position and the end of the log, up to a size
// limit. So a busy system sends many events in one message, and a lone event is sent at once.
// If a client does not read, its watch costs a cursor, a few messages in flight, and at
// most one part of a catch-up.
//
// # Sources of a cursor
//
// For the next message of a cursor, its reader tries three sources in this order:
//
//  1. the log of its feed, if the log reaches back to the position;
//  2. the cacher's window, if the window reaches back to the position. The reader then filters
//     and encodes the changes until it has caught up with the log. Readers that read the
//     window from the same revision share the encoded events;
//  3. a catch-up of kind DELTA or RESET, which leads to the state at one revision.
//
// A relist finds the objects that have changed, but not the history of the changes. So after
// a relist, the cacher's window and all logs start empty, and every cursor needs a catch-up.
//
// A watch without a position begins with a RESET. With Options.Latest, the
// window is read instead of the log if several events of one key are pending. Cursors that catch up
// at the same time share the encoded parts (catchUpCache). The position in a message promises
// that every event up to this position has been sent, either in this message or in an earlier
// one.
//
// # Streams
//
// A [Stream] serves its watches, of one or more dispatchers, through one [StreamSink]. Its live
// watches with the same interest and the same options share a cursor, and a watch that begins where
// such a cursor is joins it at once. A round marks the cursors
// whose feeds have changed. When the sink has room, the worker chooses a cut, reads all marked
// cursors up to the cut, and sends one [Response]. So the events of a revision leave together, and
// a client that does not read costs nothing for each watch. The goroutine of [Stream.Serve] makes
// the parts of catch-ups. docs/dev/subscribe.md explains the design.
//
// A stream with one watch has a [SoloSink] instead. While its cursor needs nothing but the batches of
// its group, it is a member of the group: at the end of a round, the worker looks up the next [Batch]
// of the group once and sends it to each member, one connection after another. Otherwise the stream
// reads the cursor until it can be a member again.
//
// A worker belongs to package sendqueue, serves thousands of watches and must not wait.
//
// # Goroutines and locks
//
// Only Dispatcher.Run appends to feeds. The dispatcher's mutex guards the set of feeds. Run
// holds the mutex for a round. A watch takes the mutex at its beginning and at its end,
// and when it starts a RESET or a DELTA. It also takes the mutex when it reads the window and
// the catchUpCache of its feed is empty. Readers of logs take no lock, because a feed publishes frozen views of its log.
// Only the worker of a group uses its cursors. The workers must outlive all calls of Serve.
package dispatch
