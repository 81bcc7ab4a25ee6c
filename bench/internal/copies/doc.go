// Package copies measures programs that keep a copy of all objects: the informers of fanoutd's clients,
// and programs with the clients of etcd and NATS that do the same.
//
// Such a program gets the address of the server and the number of objects as arguments. It prints the line
// "loaded" when it has all objects, and "changed" when each of them has changed once more. It ends at an
// interrupt signal.
package copies
