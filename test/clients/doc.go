// Package clients tests the Go client where it has a hard time: fanoutd is killed,
// stopped and started again while etcd forgets its history, and a proxy in front of
// it drops, delays, freezes and half-closes the connections. Whenever all is quiet
// each informer has to have what a List has, and what its handlers were told has to
// make sense.
package clients
