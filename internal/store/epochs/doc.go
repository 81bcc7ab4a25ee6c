// Package epochs detects that etcd has gone back, and names the histories of its revisions.
//
// A revision has a meaning only within one history. An etcd that was restored from a
// backup may keep its cluster id and assign old revisions again to other contents.
// Therefore each history has a random id, stored in etcd under [Key]. A [Tracker]
// assigns a new id when it detects that etcd has gone back. It has two detectors, and
// each finds cases that the other misses:
//
//   - The epoch record contains the difference between the raft index and the
//     revision. Restoring a snapshot starts a new, shorter raft log. Every process
//     detects this, even much later and without having seen the old history.
//   - A process remembers the highest revision that it has seen. It detects a data
//     directory that was replaced by an older copy, if it was running before and
//     inspects etcd before the revision has caught up. It inspects etcd after every
//     reconnect.
//
// Two cases are undetectable: a data directory that was replaced while no server was
// running, and a member that lost its newest writes with its machine. Such a member
// looks unchanged to etcd, too. A position ahead of etcd is then refused as a future
// position until etcd reaches it.
//
// When a history ends, its watches end, and the store does not return its revision until the
// caller has asked for the new epoch.
package epochs
