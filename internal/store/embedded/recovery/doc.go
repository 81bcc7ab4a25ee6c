// Package recovery fills the data directory of a member while no etcd runs in it.
//
// [Restore] takes a snapshot, and [Recover] the data of a member whose cluster has lost its majority for good, which
// [Inspect] describes. Both begin a new cluster with this member alone, and the others join it without data.
// docs/dev/cluster.md has the reasons.
//
// Nothing is changed in place: a new directory is filled beside etcd's own, written to the disk, and then renamed. A
// server does not start beside one that is not finished (directory.CheckLayout).
package recovery
