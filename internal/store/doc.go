// Package store keeps objects in etcd. It is the only package that uses the etcd
// client.
//
// [Dial] connects to an etcd cluster. [OpenEmbedded] runs an etcd member inside this
// process, which opens a socket only on request. Both return a [Store] with the same
// implementation, because both provide the same etcd client. Only watches and the revision differ:
// an embedded etcd provides them without its API. A [Collection] is the part of a store
// below one etcd prefix; its keys are relative to the prefix.
//
// All exported methods may be called from any goroutine. Records from an embedded etcd
// share memory with it and must not be modified.
//
// # What this package assumes of etcd
//
// Each assumption was verified in the sources of etcd 3.7:
//
//   - A watch delivers the changes of a key range in order of revision, and all
//     changes of one revision in one response. etcd notifies an up-to-date watcher
//     once per transaction, and splits the batches of a lagging watcher only between
//     revisions. If asked, it sends a response that exceeds the size of its largest request
//     in fragments. They contain the changes in the same order, also within a revision.
//   - The header of a response with events may name a later revision than the events
//     while the watch catches up. Only a progress notification confirms that everything
//     up to its revision has been delivered.
//   - The difference between the raft index and the revision never falls, because one
//     raft entry creates at most one revision.
//   - The bucket of keys of an embedded etcd contains each change since the last
//     compaction under its revision. A compaction raises the first revision before it
//     deletes anything.
//   - The client resumes a broken watch after the last event or progress notification.
//     A watch therefore ends only if its revision is compacted, the member has lost
//     the leader, or the caller closes it.
package store
