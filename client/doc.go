// Package client is the Go client of fanoutd. It reads, writes and watches objects, and
// keeps local copies of them up to date.
//
//	c, err := client.New("fanoutd.example.com:7420", client.WithToken(token))
//	...
//	defer c.Close()
//	config := c.Resource("config")
//
//	routes := client.NewInformer(config, client.JSONDecoder[Route](), client.Prefix("routes"))
//	routes.AddHandler(client.Handler[Route]{
//		Add:    func(route client.Item[Route]) error { ... },
//		Update: func(old, route client.Item[Route]) error { ... },
//	})
//	go routes.Run(ctx)
//	err = routes.WaitForSync(ctx) // returns the error of Run if that ends first
//	...
//	route, ok := routes.Lister().Get("routes/eu")
//
// # Clients and resources
//
// [New] returns a [Client] of one or several servers over the same etcd. It connects
// when the first request needs it, and again when a connection is lost. A [Resource] is
// a cheap handle of one collection of objects. Any number of goroutines may use both.
//
// # Objects, revisions and positions
//
// An [Object] has a key, which is a path, a value and labels. Each write gets a revision,
// a number that grows with every write and is the same at all servers. An object has the
// revision of its last write, and a list is the state at one revision. A write can require
// the revision that was read ([IfRevision]).
//
// A [Position] is a revision together with its epoch. A new epoch begins when etcd is
// replaced or restored from a backup; revisions of different epochs cannot be compared.
// Watches and informers notice a new epoch and replace their state.
//
// # Reading and writing
//
// [Resource.Get] and [Resource.List] are linearizable: the answer includes every write
// that was acknowledged before the call. [MinRevision] and [AllowStale] accept older
// states, and [AtRevision] reads a past one. [Resource.Put], [Resource.Delete] and
// [Resource.Transact] write. [Resource.Update] reads an object, changes it and writes it
// back unless it has changed meanwhile.
//
// [Resource.History] returns who wrote what, when and why. [Resource.Because] gives the reason of
// a write, and [Resource.Validate] asks whether the rules of the resource allow one.
//
// Get, List and History are retried a few times while a server is unavailable or overloaded.
// Writes are not retried, because the first attempt may have been applied.
//
// # Following changes
//
// An [Informer] keeps decoded and indexed objects in memory and calls handlers when they
// change. Most programs want an informer.
//
// [Resource.Watch] is the layer below: an iterator over updates that reconnects and
// resumes for as long as the program runs. Its events are ordered, complete and unique; Watch lists the guarantees. In return, a caller that keeps a copy must do
// three things with each [Update]:
//
//   - In [PhaseReset], discard the copy: a new state follows.
//   - Apply the events by key: store the object of [Added] and [Modified], remove that of
//     [Deleted].
//   - If the phase is complete ([Phase.Complete]), the copy is the state at Position. Save the
//     copy together with the Position, and pass that to [After] when the program starts again.
//     Otherwise the copy is half of a new state: do not save it, and do not show it to readers
//     that expect a consistent state.
//
// A [Copy] does the first two, and returns what has really changed.
//
// The protocol requires a client to hold back the events of a DELTA until SYNCED and
// partial messages until the last part. Watch does that, so its callers need not.
//
// A slow caller of Watch delays no other watch and holds little memory: at most 512 KiB of unread
// messages, or 4 MiB while all watches of the client together hold less than 16 MiB, and the
// update that it handles. That is as large as one message (1 MiB, or a single larger
// event) unless it is the difference after a long interruption. The server pauses the watch
// and later sends what changed meanwhile, merged by key if that is too much for its memory;
// [EveryEvent] makes that an error.
//
// # One stream
//
// All watches and informers of a client share one connection and, on it, one stream of the method
// Subscribe, so thousands of watches cost little. There are a few exceptions: a caller that is
// too slow for the shared stream, a context with outgoing metadata of gRPC, a request of more than
// 60 KiB, and servers or proxies without Subscribe. Such a watch has a stream of its own, with the same
// guarantees.
//
// The context of the shared stream is that of the client: a [TokenSource] and interceptors
// of gRPC do not see the values in the context of a watch. Use a client for each identity.
//
// # Handlers
//
// Each [Handler] of an informer has its own goroutine, so a slow handler delays nothing
// else. While it is busy, one change per object waits, from the version that the handler
// has to the latest. So besides the copy of the informer, a handler holds at most two
// older versions of each object, however slow it is.
//
// If a handler returns an error, it gets the object again, after a delay that grows from a second to
// a minute, until it accepts the object or a newer version. Other objects continue.
//
// Handlers can be added and removed at any time ([Informer.AddHandler]).
//
// # Shared watches
//
// Informers of a client that select the same objects with the same options share one watch on
// the server. An informer that joins gets the present state from the shared watch instead of the
// server. Then a short watch of its own confirms that this state has all earlier writes, so
// [Informer.WaitForSync] promises the same as without sharing. [Resource.Watch] does not share,
// because it has no copy for those that join later. But the server sends the events of equal watches
// only once, and they get the same objects in memory.
//
// # Reports
//
// Watches and informers report which position they have applied, at most once a second (once a minute
// if only bookmarks arrive), so that operators see which processes have a change. For an informer,
// a change is applied when all handlers have accepted it. If an object cannot be decoded, or a handler
// fails, the report has the error, and the keys of the objects if they are at most 32. Operators who wait
// for a change do not wait for watches [WithoutReports]. [WithSubscriber] names the process. Everything
// else also works with servers that do not take reports.
//
// # Without a server
//
// [Lister.Stale] reports that a copy may be out of date: the client has lost the servers, or
// the servers have lost etcd. A watch has [Update.AsOf] for that. With [LastKnownGood] an informer
// saves its copy in a file, so that a program can start while no server can be reached:
// [Informer.WaitForState] accepts the saved copy, [Informer.WaitForSync] waits until the copy
// is as fresh as the [Consistency] of the informer requires.
//
// # Errors
//
// Errors from the server are of type [*Error]. Decide by their [Reason]:
//
//	if errors.Is(err, client.ErrNotFound) { ... }
//
// Watches and informers retry until their context ends, or until a permanent
// error. After [Client.Close], all calls fail with [ErrClosed].
package client
