// Package floor is a server that does nothing but what cannot be left out to tell
// watchers of the changes of etcd: it follows etcd with one watch, encodes each change
// once, and writes the same bytes to every stream, those of one connection in one
// system call. It is what other servers are measured against.
//
// It is no server for anything else. It speaks just enough of HTTP/2 for the package
// raw, never looks at a window, sends everything to everybody, and a client that does
// not read blocks others.
package floor
