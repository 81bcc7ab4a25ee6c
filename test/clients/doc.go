// Package clients tests the Go client where it has a hard time: fanoutd is killed,
// stopped and started again while etcd forgets its history or is restored from a
// backup, informers begin with what they had saved, or with a file that is damaged,
// and a proxy in front of the servers drops, delays, freezes and half-closes the
// connections. There is a resource with a cache, and one without.
//
// Whenever all is quiet each informer has to have what a List has, and what its
// handlers were told has to be a possible history of each key: Add, any number of
// Update with growing revisions, Delete, and so on again. A new epoch begins with one
// replacement, in which revisions may be lower than before; what is gone is deleted.
package clients
