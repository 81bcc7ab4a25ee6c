// Package dispatch brings the changes of one resource to its watchers at a cost
// that is paid per distinct interest, not per watcher.
//
// A [Dispatcher] reads the cacher's window with a cursor of its own. For each
// change an index names the feeds whose interest it may concern; each of these
// filters it once, encodes it once and appends it to its log. A [Watcher] is a
// cursor: a revision up to which it has been told everything. It takes what lies
// between its cursor and the end of the log, up to a size limit, in one message.
// So batches form by themselves when the system is busy, a lone event leaves at
// once, and a watcher that does not read costs nothing but its cursor.
//
//	cacher.State ──> Dispatcher.Run ──index──> feed ──append──> log (frozen views)
//	                        |                    '──mark dirty──> cohort ──> followers that wait
//	                        '─ never waits for a watcher
//
// Watchers that are at the same place of a log are told the same message, a [Telling],
// which the first of them makes: what all of them are told is made once, be it ten
// thousand.
//
// # Where a watcher reads
//
// A watcher asks three sources in turn, each time it wants the next message:
//
//  1. the log of its feed, while the log reaches back to its cursor;
//  2. the cacher's window, while that does: the watcher filters and encodes for
//     itself until it has caught up with the log;
//  3. a snapshot of the cacher's state (a catch-up of kind RESET).
//
// The same rule serves the newcomer, the one who resumes and the one who fell
// behind; whether a position is in the log, in the window or too old is never
// decided in advance. What the position in a message promises, the cursor holds:
// every event up to it has been delivered, none of them comes later.
//
// # Goroutines
//
// Run is the only writer of feeds. There are two ways to serve a watcher.
//
// [Watcher.Next] waits for each message, on a goroutine of the watcher's own. A fixed
// number of wakers, started by Run, wake those who wait, so that the writer does not pay
// for ten thousand of them; while a waker works, later changes only mark the feed dirty.
//
// A [Follower] is served on a lane, whose worker it shares with thousands. Those of one
// feed and one worker that wait are a cohort, and remain in it while they are told what
// happens: an event makes one task ready, which looks up the next message once and tells
// it to all of them, those of one lane one after another. [Watcher.Take] says for each
// whether that is its next message, and moves its cursor. Who needs another one, or has no
// room, leaves the cohort and is looked after by itself: [Watcher.Poll] returns what the
// log has, and never takes long; [Watcher.Settle] then lets the watcher join those who
// wait, or says that there is more. Where Poll says that what comes next is [Elsewhere],
// it is for a goroutine that may take its time, which calls [Watcher.Try] until there is
// nothing, and then leaves the watcher to the worker.
package dispatch
