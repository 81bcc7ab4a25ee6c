// Package direct serves a resource straight from the store, without a copy in memory. This
// is what "cache: off" means. It is for resources that are too large to keep and have few
// watches: each read is a read of the store, and each watch has its own watch of the
// store.
//
// A [Source] serves reads ([Source.Objects]) and starts watches ([Source.Watch]). A
// [Reader] produces the same messages as a cursor of package dispatch:
//
//	from nothing      RESET: the objects of one revision, page by page; then live events
//	after a position  REPLAY, if the store still has the changes since; otherwise RESET.
//	                  There is no DELTA, because deleted keys are not remembered
//	from now          a bookmark; then live events
//
// # Changes
//
// A reader takes changes from a tail: a goroutine that reads a watch of the store into a
// buffer of limited size. A client that does not read neither blocks the store nor fills
// the memory. When the buffer is full, the tail ends. Once the reader has taken
// everything, a new tail starts at the same position. A tail with older changes to read
// waits for the reader for a few seconds before it ends. If the watch only wants the latest
// change per key, the tail merges the buffer first.
//
// While the store is away, the tail waits for it. A tail ends for good only if the store
// has forgotten the next changes, cannot send them because of their size, or has another
// epoch. Then the reader sends a RESET.
//
// An event needs the object as it was before. The store's watch delivers it, unless a
// compaction has overtaken the watch. Then that part of the history counts as lost.
//
// # Snapshots
//
// A snapshot is read at the pace of the client. If the store forgets its revision before
// the end, it starts over. The third time the watch ends instead: a client that reads more
// slowly than the store compacts would never be in sync.
//
// # Goroutines
//
// Next and Position of a Reader are called by one goroutine at a time. The goroutines of
// its tail share only the buffer with it, under a mutex; Close waits for them. Everything
// else is safe for concurrent use.
package direct
