// Package catchup reads what comes next for the watches of a feed.
//
// A [Reader] is at a position: everything up to it has been delivered. For the next message, it tries
// three sources in this order:
//
//  1. the log of its feed, if the log reaches back to the position;
//  2. the cacher's window, if the window reaches back to the position. The reader then filters and
//     encodes the changes until it has caught up with the log. Readers that read the window from the
//     same revision share the encoded events;
//  3. a catch-up of kind DELTA or RESET, which leads to the state at one revision. Readers that catch up
//     at the same time share the encoded parts.
//
// A relist finds the objects that have changed, but not the history of the changes. So after a relist,
// the cacher's window and all logs start empty, and every reader needs a catch-up.
//
// A reader takes no lock, except that of the feeds when it reads the window or a state and the feed has
// no parts. One goroutine at a time uses it.
package catchup
