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
//   - The difference between the index of raft's log and the revision never falls,
//     because an entry of the log makes at most one revision.
//   - The client resumes a broken watch by itself behind the last event or
//     progress notification, so a stream ends only when it is compacted away, has
//     lost the leader, or is closed.
//
// # Epochs
//
// A revision means something only together with the history that it belongs to.
// An etcd that is restored from a backup may have the same cluster id as before,
// and revisions that were given out already come again with other contents. So
// each history gets a random id, kept in etcd under [EpochKey], and a new one when
// etcd is found to have gone back. There are two signs of that, and each finds
// what the other cannot:
//
//   - The record of the id knows how long raft's log was, compared with the
//     revision. Restoring a snapshot begins a new log. Whoever looks sees it, also
//     much later, also who has never seen the etcd before.
//   - A process knows the highest revision that it has seen. So it notices a data
//     directory that was put back, if it was running before and looks before etcd
//     has come as far again. It looks whenever the connection has come back.
//
// What nobody can notice is a data directory that was put back while no server
// was running, or a member that lost its newest writes with its machine: to etcd,
// too, that is a member as it always was. Then a position that is ahead of etcd is
// refused as one of the future, until etcd has got there.
//
// When a store has gone back its streams end, and reads of its revision fail until
// the new epoch was asked for.
//
// Records that come from an in-process etcd share memory with it. Nobody may
// write to them.
package store
