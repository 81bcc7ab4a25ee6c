// Package robustness checks fanoutd with etcd's own robustness validator
// (go.etcd.io/etcd/tests/v3/robustness/validate). It is a separate module, because the
// validator depends on etcd's test code, which must not become a dependency of fanoutd.
//
// Three fanoutd processes, one of them without a cache, share an etcd of one or three
// members, or are its three members themselves. Clients read and write through all of them at random, watchers come and go,
// and processes are killed, stopped and started again. The test records the answers as
// if they came from etcd, and reads from etcd's write-ahead log what really happened.
// The validator searches for an order of all reads and writes that explains every
// answer, and compares each watch with the log.
//
// Watches are carried by Watch or by Subscribe: half of the watchers use each, unless -carrier says
// otherwise. A watch of a Subscribe stream is recorded like any other.
//
// # How an answer of fanoutd becomes an answer of etcd
//
// The resource has the raw codec, so etcd stores the bytes that clients put. A key in
// etcd is the prefix of the resource followed by the key of the object.
//
// The revision of a position is an etcd revision. An answer at revision r shows the
// resource as it was when all of etcd was at r, even if other keys caused that revision.
// So it is recorded as an etcd read whose header has revision r, and the model must be
// at exactly r at some time between call and return. To test this, another program
// writes its own keys in the same etcd, and its calls are recorded too.
//
// Put, Delete and Transact are recorded as etcd transactions that compare mod revisions.
// A failed precondition is a transaction that failed at the revision in the error. An
// absent key is an empty range. UNAVAILABLE and DEADLINE_EXCEEDED leave the outcome open,
// and the clients do not retry. Any other error fails the test.
//
// Get and List are linearizable ranges. All pages of a list form one range: they have
// one revision, which was fixed before the first page returned, so the range returns
// with the first page.
//
// REPLAY and live events are an etcd watch from the revision after the position where
// they begin. ADDED is a put that creates a key, MODIFIED is any other put, DELETED is a
// deletion. The position of a message promises that every earlier event has been
// delivered, so it is recorded as a progress notification, whether or not it is a
// bookmark. After a RESET or a DELTA another watch begins at the position of SYNCED. A
// watch from now begins at the position of its first BOOKMARK. A watch with a field
// selector for one key is a watch of that key. With previous_object the validator also
// compares the previous objects.
//
// A new watch with or without a snapshot begins at the present. So its snapshot, or an
// empty read at its first position, is also a linearizable range.
//
// # States
//
// The result of a RESET or a DELTA, and reads with any, min_revision or exact_revision,
// have no place in the order, because they show the state at a revision that may already
// be old. They are checked separately: the validator receives the requests of the log one
// after another, followed by a range at an old revision for each such state.
//
// # Information from the log
//
// The log has the outcome of writes without an answer: no value is put twice, and a
// deletion has moved the revision. Such a write is recorded as applied at that revision,
// or omitted if it had no effect. fanoutd may also write keys of its own. The test finds
// these requests by their keys, and adds them as requests of another client. The
// neighbors of all these requests in the log limit when they were made.
//
// # What is not checked
//
// The validator does not support create revisions of objects, label selectors, LATEST,
// watches without values, and writes with a time to live. It does not support a
// compaction that overtakes a server either: the server then sends its watchers a
// difference at a later revision. The test therefore compacts only what all servers have
// seen. Package check covers all of these.
package robustness
