// Package cacher keeps the current state of one resource in memory, with a sliding
// window of its most recent changes. Any number of goroutines read it without locks.
//
// One goroutine, [Cacher.Run], writes. It lists the resource at one revision, follows the
// store's watch from there, and publishes a [State] after every update. A State holds the
// revision, the objects and the window as they are together. It never changes: a reader
// takes the newest one with [Cacher.State], keeps it as long as it likes, and never
// makes the writer wait.
//
//	store ──watch──> Run ──publish──> State ──> Get, List (package server)
//	                  |                 '─────> dispatch, with a cursor of its own
//	                  '── fill, relist by difference
//
// [Cacher.Read] waits until the state is as fresh as a request asks.
//
// Fill: at start, the cacher lists the resource at an older revision that the store still
// has, and lets the watch bring the state to the present. This fills the window, so a
// restarted server can resume the positions that it sent before.
//
// Relist: if the store has compacted the next revision, the cacher lists the present state.
// The changes in between are lost, so the window starts empty ([State.Replayable]). Watches
// catch up with the difference, which the change index has.
//
// A State also has a change index, which finds every key that changed since a revision
// older than the window ([State.Since]). Deleted keys stay in it as tombstones, up to a
// limit.
//
// While it follows a watch, Run starts four goroutines and waits for them to end:
//
//	progress ticker  asks the watch how far it is
//	watchdog         detects a store that is away, or a watch that is silent or went back
//	key watch        starts over when a missing decryption key has arrived
//	self-check       compares the state with the store, if Config.CheckInterval is set
package cacher
