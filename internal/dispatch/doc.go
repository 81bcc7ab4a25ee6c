// Package dispatch delivers the changes of one resource to its watches. The cost of a
// change is paid once per distinct interest, not once per watch.
//
//	feed.Feeds ──round──> workerRounds ──> group ──batch──> cursors ──> sinks
//
// Package feed appends the events of a change to the logs of the feeds that it concerns, and package
// catchup reads them. This package decides which watch gets what when, and sends.
//
// A cursor is how far a watch has been served: everything up to its position has been delivered. The
// next message has the events between this position and the end of the log, up to a size
// limit. So a busy system sends many events in one message, and a lone event is sent at once.
// If a client does not read, its watch costs a cursor, a few messages in flight, and at
// most one part of a catch-up.
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
// While a stream has one cursor, which needs nothing but the batches of its group, the cursor is a member
// of the group: at the end of a round, the worker looks up the next [feed.Batch] of the group once and
// sends it to each member, one connection after another. Otherwise the stream reads the cursor until it
// can be a member again.
//
// A worker belongs to package sendqueue, serves thousands of watches and must not wait.
//
// # Goroutines and locks
//
// The mutex of the feeds also guards the groups of each feed and the rounds of each worker. A watch
// takes it at its beginning and at its end. Only the worker of a group uses its cursors. The workers
// must outlive all calls of Serve.
package dispatch
