// Package leader sends the writes of a server that is a member of an etcd cluster to the leader's member.
//
// Any member of etcd accepts a write. A follower forwards it to the leader, and learns of its fate only
// when it applies it. So a write that a follower has forwarded to a leader that dies waits for 7 s, and
// its outcome stays unknown. The leader's own member refuses at once what it does not propose. A [Client]
// therefore sends writes to the leader's member: by function call if that is the member of this process,
// otherwise over its client URL. Reads, and streams of leases, go to the own member; reads are repeated while
// there is no leader.
//
// A write ends in one of four ways:
//
//   - etcd has applied it.
//   - etcd has answered with an error that sending it again would not change, such as a full database.
//   - It was certainly not proposed, and never will be. The client sends it again until the caller's
//     context ends, and then returns a [NotAppliedError].
//   - Its outcome is unknown. The client never sends it again, and returns an [UnknownOutcomeError].
//
// The file outcome.go says which error means what; docs/dev/cluster-writes.md has the reasons.
//
// # Leaders
//
// One goroutine follows the leader as the own member sees it, and begins a [leadership] with each change.
// Writes that wait for a former leader get a second for late answers. The client keeps one connection to
// each member that has been the leader. [Client.Close] ends all of it.
//
// If the leader's client URL cannot be reached, although the own member still follows that leader, the
// own member forwards the writes, as any etcd does.
package leader
