// Package cacher keeps the current state of one resource in memory, together
// with a sliding window of its most recent changes, and gives it to any number of
// readers without a lock.
//
// One goroutine, the one in [Cacher.Run], writes. It fills the state from the
// store at one revision, follows the store's watch from there, and after every
// update publishes a [State]: the revision, the objects and the window as they
// are together. A State is frozen; a reader takes the newest one with
// [Cacher.State] and may keep it for as long as it likes. Nothing a reader does
// makes the writer wait.
//
//	store ──watch──> Run ──publish──> State ──> Get, List (package server)
//	                  |                 '─────> dispatch, by a cursor of its own
//	                  '── fill, relist by difference, progress
//
// The window begins in the past: on start the state is listed at an older
// revision that the store still has and brought forward by the watch, so a
// restarted server resumes the positions that it gave out before.
//
// When the store cannot continue the watch because it has compacted the revision
// away, the cacher lists again and publishes the difference as changes of the new
// revision. Who watches sees events; who wants to resume at an older position
// finds it no longer replayable (see [State.Replayable]).
package cacher
