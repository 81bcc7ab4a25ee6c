// Package client is the Go client of fanoutd: it reads, writes and watches
// objects, and keeps local copies of them up to date.
//
// # Connecting
//
// [New] makes a client of one or several servers; it connects when the first
// request needs it, and again whenever a connection is lost. A [Resource] is a
// cheap handle of one collection of objects. Both may be used by any number of
// goroutines.
//
//	c, err := client.New("fanoutd.example.com:7420")
//	...
//	defer c.Close()
//	config := c.Resource("config")
//
// # Reading and writing
//
// [Resource.Get] and [Resource.List] answer with objects as they are now: no older
// than any write that was acknowledged before the call. [MinRevision] and [Any] ask
// for less, [AtRevision] for the past. [Resource.Put], [Resource.Delete] and
// [Resource.Transact] write; [IfRevision] and [IfAbsent] are their preconditions,
// and [Resource.Update] reads, modifies and writes until nobody came in between.
//
// Every write has a revision, which is the same on all servers. An object carries
// that of its last write, and given to a read as [MinRevision] it lets you read your
// own write at any server.
//
// # Errors
//
// Errors that the server gives are an [*Error]. Its reason is what to decide by:
//
//	if errors.Is(err, client.ErrNotFound) { ... }
//
// Get and List are tried again a few times when a server is unavailable. Writes are
// not, because the first try may have been applied.
package client
