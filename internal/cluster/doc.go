// Package cluster decides how a server of several starts its etcd: as the founder of a new cluster, as
// a new member of an existing one, or with the data that it has.
//
// [Decide] is the decision: a pure function of the own data directory and the answers of the listed servers.
// [Await] asks until the decision is not to wait. Until then it serves the lobby, a small HTTP service at the
// address where etcd will serve its peers, so that the others learn the same about this server.
// docs/dev/cluster.md has the rules and the failures that they prevent.
//
// The package does not know etcd. Its caller reads the directory, adds the member, and starts etcd.
package cluster
