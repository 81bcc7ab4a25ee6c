// Package floor is a server with the least possible work: it follows etcd with one watch,
// encodes each change once, and writes the same bytes to every stream, with one system call
// per connection. Other servers are compared with it.
//
// It is useful for nothing else. It speaks just enough HTTP/2 for package raw, ignores flow
// control, sends every change to every stream, and lets a client that does not read block
// the others.
package floor
