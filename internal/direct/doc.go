// Package direct serves a resource straight from the store, without a copy of it in
// memory: what "cache: off" means. It is for what is too large to be kept, and
// watched by few. Each read is a read of the store, each watch one of the store's
// watches.
//
// A [Watcher] says the same as one of package dispatch, in the same messages:
//
//	from nothing    RESET, the objects of one revision in pages; then live
//	after a position REPLAY, as long as the store has not forgotten what came then;
//	                else RESET. A DELTA would need to know what was deleted
//	from now        a bookmark; then live
//
// Its source of changes is a tail: a goroutine that reads the store's watch into a
// buffer. Whoever does not read does not hold up the store, and does not fill the
// memory either: a full buffer ends the tail, and a new one begins where the old one
// ended when the watcher has read that far; where only the latest is wanted, a full
// buffer is merged first. While the store is away the tail waits for it. So what ends
// a tail for good is only that the store has forgotten what comes next, or is another
// one; then the watcher gets a RESET.
//
// A snapshot is read from the store at the pace of the watcher. If the store forgets
// its revision before the end, it begins anew; the third time the watch ends instead,
// for one that reads more slowly than the store forgets would never be in sync.
//
// An event needs the object as it was before. The store's watch tells it, unless a
// compaction has overtaken the watch; then that history is lost as well.
package direct
