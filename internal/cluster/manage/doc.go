// Package manage shows the members of a running cluster and changes them, for operators.
//
// [Cluster] is what all members say at about the same time. Its methods decide what may fail: they
// are pure functions. [Manager] refuses the changes that would leave the cluster without a
// majority of members that work, with an [UnsafeError] that says what to do instead. [Etcd] is what it needs of
// etcd.
//
// A check and the change after it are two steps. A Manager does one at a time, but those of two servers can
// overlap. etcd then refuses a change of members that it considers unsafe itself.
package manage
