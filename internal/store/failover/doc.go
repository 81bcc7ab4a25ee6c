// Package failover sends the requests of an etcd client to members that answer.
//
// gRPC's own policy uses every member whose connection is open. The connection to a member
// that has disappeared, or whose link is frozen, stays open for up to 15 s, until a
// keepalive fails. Every third request would wait for it. [Members] avoids this:
//
//   - A probe asks each member once a second for its status, over the connection that
//     requests use.
//   - A member is avoided while it is silent, which means that it has not answered a probe
//     within a second, or while it has no leader. New requests go to other members. Streams
//     end with UNAVAILABLE, so that the client continues its watches at another member.
//   - A member that stays silent is lost. Requests that wait for it end with UNAVAILABLE.
//   - A read that takes longer than a second is also sent to another member. The first
//     answer wins.
//
// A write is sent only once, because it may have been applied although there is no answer.
package failover
