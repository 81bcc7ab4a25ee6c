// Package history keeps and reads the history of a resource: for each write, what was stored, who
// wrote it, when and why.
//
// A write stores two more keys in its transaction, below a prefix of their own ([Prefix]): the
// record, which has the value, and an entry of the index, which has the author and the message.
// etcd gives all keys of a transaction the same create revision. So the create revision of a record
// is the revision of its write, and a write and its record cannot exist without each other.
//
// The names of both keys contain an [Order]. It is made before the write, from a revision that the
// server has seen, and sorts newer writes first. The transaction compares the names that are there,
// so that the records of one key are exactly in order, and those of a resource nearly: see [Slack].
//
//   - A [Recorder] makes the records of writes.
//   - A [Reader] reads pages, newest first.
//   - A [Pruner] removes old records.
//
// docs/dev/history.md explains the design. All methods may be called from any goroutine.
package history
