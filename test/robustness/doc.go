// Package robustness lets etcd's own robustness validator
// (go.etcd.io/etcd/tests/v3/robustness/validate) judge what fanoutd tells its
// clients. It is a module of its own, because the validator brings the test code of
// etcd with it, which fanoutd itself should not depend on.
//
// Three fanoutd processes, one of them without a cache, stand in front of an etcd of
// one or three members. Clients read and write through all of them at random,
// watchers come and go, and processes are killed, stopped and started again. What
// clients were told is recorded as if etcd itself had told them; etcd's write-ahead
// log says what has really happened. The validator then has to find an order of all
// reads and writes that explains every answer, and compares each watch with the log.
//
// # How an answer of fanoutd becomes one of etcd
//
// The resource has codec raw, so that etcd stores the bytes that clients put. A key
// is the prefix of the resource and the key of the object.
//
// A position's revision is etcd's. A server that answers at revision r shows the
// resource as it was when etcd as a whole was at r, whichever keys have moved it
// there. So an answer at r stands for a read of etcd whose header says r, and the
// model must be at exactly r in between call and return. A program that has keys of
// its own in the same etcd, and is recorded, too, makes sure that this is put to the
// test.
//
// Put, Delete and Transact are transactions of etcd that compare mod revisions. A
// failed precondition is a transaction that has failed at the revision which the
// error names; an absent key is an empty range. UNAVAILABLE and DEADLINE_EXCEEDED
// leave open what has happened; nothing is ever sent again. Any other error fails
// the test.
//
// Get and List are linearizable ranges. All pages of a list together are one range:
// they have one revision, and it was fixed before the first page returned, so this
// is when the range returns.
//
// REPLAY and live events are a watch of etcd from the revision after the position
// where they begin. ADDED is a put that creates, MODIFIED any other put, DELETED a
// deletion. The position of a message promises that every event up to it has been
// delivered: that is a progress notification, with bookmarks or without. After a
// RESET or a DELTA another watch begins at the position of SYNCED; one that begins
// now does so at the position of its first BOOKMARK. A watch with a field selector
// for one key is a watch of that key. With previous_object the validator compares
// the objects from before, too.
//
// A stream that begins from nothing, or now, begins at the present. So the snapshot
// of the one, and an empty read at the first position of the other, are linearizable
// ranges, too.
//
// # States
//
// What a RESET and a DELTA lead to, and reads with any, min_revision and
// exact_revision, have no place in the order: they say what was the state at a
// revision that may be old by then. They are judged apart. The requests of the log
// are given to the validator one after another, followed by a range at an old
// revision for each such state.
//
// # What only the log knows
//
// What became of a write without an answer is looked up in the log: no value is put
// twice, and a deletion has moved the revision. Such a write is given to the validator
// as applied at that revision, or left out if it had no effect. fanoutd may write keys
// of its own, too. Those requests are found by their keys, and given to the validator
// as somebody's. All of them were made between their neighbours in the log.
//
// # What is not judged
//
// Create revisions of objects, label selectors, LATEST, views without values and
// writes with a time to live have no counterpart that the validator knows. Neither
// has a compaction that overtakes a server, which then tells its watchers the
// difference at a later revision: only what all servers have seen is compacted.
// Those are judged by package check.
package robustness
