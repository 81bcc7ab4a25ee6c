// Package client is the Go client of fanoutd: it reads, writes and watches objects,
// and keeps local copies of them up to date.
//
// # Connecting
//
// [New] makes a client of one or several servers; it connects when the first
// request needs it, and again whenever a connection is lost. A [Resource] is a
// cheap handle of one collection of objects. Both may be used by any number of
// goroutines.
//
//	c, err := client.New("fanoutd.example.com:7420", client.WithToken(token))
//	...
//	defer c.Close()
//	config := c.Resource("config")
//
// # Objects, revisions, positions
//
// An [Object] has a key, which is a path, a value, and labels. Every write has a
// revision, a number that grows with every write and is the same at all servers. So
// an object has the revision of its last write, a list is of one revision, and a
// write can be made to depend on the revision that was read ([IfRevision]). A
// [Position] is a revision together with the epoch in which it counts: if etcd is
// replaced or restored from a backup, there is a new epoch, and revisions of the old
// one mean nothing any more. Watches and informers notice that, and replace what they
// have.
//
// # Reading and writing
//
// [Resource.Get] and [Resource.List] answer with objects as they are now: no older
// than any write that was acknowledged before the call. [MinRevision] and [AllowStale] ask
// for less, [AtRevision] for the past. [Resource.Put], [Resource.Delete] and
// [Resource.Transact] write, and [Resource.Update] reads, modifies and writes until
// nobody came in between.
//
// # Following what happens
//
// There are two ways. An [Informer] keeps a copy of the objects in memory, decoded
// and indexed, and tells handlers what changes. It is what most programs want:
//
//	routes := client.NewInformer(config, client.JSONDecoder[Route](), client.Prefix("routes"))
//	routes.AddHandler(client.Handler[Route]{Update: func(old, route client.Item[Route]) { ... }})
//	go routes.Run(ctx)
//	err := routes.WaitForSync(ctx) // also if Run has ended, and why
//	...
//	route, ok := routes.Lister().Get("routes/eu")
//
// Below it is [Resource.Watch], an iterator over updates that lives for as long as
// the program. It begins with the state, goes on with every change, and is not
// stopped by anything that passes: it connects again and resumes where it was.
// Three rules make a correct copy of its updates:
//
//   - At [Update].Replace, forget everything: the state follows.
//   - Apply events by key: put what is [Added] or [Modified], remove what is
//     [Deleted].
//   - At [Update].Complete the copy is the state at [Update].Position. That is what
//     to remember, and to give to [After] in the next life.
//
// In return each event comes once and in order, and none that matters is missing.
// After a long absence the servers may tell what is different now instead of all
// that happened; [EveryEvent] makes that an error.
//
// Nothing is buffered for a slow reader: who does not read is not sent to, and is
// brought up to date later.
//
// # When there is no server
//
// [Lister.Stale] says that a copy may be old. With [LastKnownGood] it is kept in a
// file, so that a program can start while there is no server: [Informer.WaitForState]
// takes what there is, [Informer.WaitForSync] waits for a server.
//
// # Errors
//
// Errors that the server gives are an [*Error]. Its [Reason] is what to decide by:
//
//	if errors.Is(err, client.ErrNotFound) { ... }
//
// Get and List are tried again a few times when a server is unavailable or has too
// much to do, which is when it says that it has time for them. Writes are not, because the first try may have been applied. Watches and informers try again
// until their context ends, unless that cannot help.
package client
