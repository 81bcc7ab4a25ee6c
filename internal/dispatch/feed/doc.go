// Package feed keeps what the watches of one interest share: the log of its events, its latest batches,
// and the parts of catch-ups. It knows nothing of the watches.
//
//	cacher.State ──> Feeds.Run ──index──> Feed ──append──> log ──> View
//
// [Feeds] reads the cacher's window of recent changes. For each change, an index names the feeds whose
// interest the change may concern. Each of these feeds filters the change once, encodes the event once
// and appends the bytes to its log. Appending never waits for a watch. One pass over all new changes is
// a round. At its end, the feeds publish frozen views of their logs, and the function that NewFeeds got
// hands the feeds over to those who send.
//
// Only Feeds.Run appends to feeds. The mutex of Feeds guards the set of feeds, and Run holds it for a
// round. Readers of views take no lock.
package feed
