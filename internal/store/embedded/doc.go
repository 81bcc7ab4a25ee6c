// Package embedded runs an etcd member inside this process.
//
// [Start] returns a [Member] that serves etcd's API to this process without a socket, and to
// others only on request. Where etcd would end the process, wait for ever, or use more memory or
// disk than there is, this package prevents it.
package embedded
