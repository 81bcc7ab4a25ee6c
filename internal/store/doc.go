// Package store keeps objects in etcd. It is the only package that knows etcd.
//
// There are two ways to a [Store]: [Dial] connects to an etcd cluster, and
// [OpenEmbedded] runs an etcd member inside this process, without a socket unless
// one is asked for. Behind them there is one implementation, because both give
// the same client. A [Collection] is the part of a store below one etcd prefix;
// its keys are relative to the prefix.
//
// What etcd promises and this package relies on, each seen in the sources of
// etcd 3.7:
//
//   - A watch delivers the changes of a key range in order of revision, and all
//     changes of one revision in one response: a synced watcher is notified once
//     per transaction, and a watcher that catches up gets batches that are split
//     between revisions only. Responses above the size limit of a request are sent
//     in fragments, which the client puts together again.
//   - The revision in the header of a response with events may be ahead of the
//     events while the watch catches up. Only a progress notification says that
//     everything up to its revision has been delivered.
//   - The client resumes a broken watch by itself behind the last event or
//     progress notification, so a stream ends only when it is compacted away, has
//     lost the leader, or is closed.
//
// Records that come from an in-process etcd share memory with it. Nobody may
// write to them.
package store
