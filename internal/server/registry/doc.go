// Package registry has all watches of a server, whatever entrance they came through: package watch
// serves the method Watch, package subscribe the method Subscribe.
//
//	Registry ── RPC, one for each Watch and each Subscribe ── Watch, with its Registration
//	   ├─ Queues, and the workers that serve them
//	   └─ Counters of each resource and worker
//
// # What an entrance does
//
// An entrance registers its method with [rpc.Registrar.RegisterEntrances]. It has three types of its own:
// one implements [RPC]; one implements [Watch], and embeds a [Registration] and a dispatch.StreamWatch; one
// is the dispatch.StreamSink of the stream. Its handler does what interceptors do for other methods
// ([rpc.Interceptors.AdmitRequest], [rpc.Accept], [rpc.OnDone], [rpc.Interceptors.Conclude], and if clients
// send several messages, [rpc.OnViolation]). A watch of a resource without a cache is a dispatch.Stream.StartDirect, and
// a start that is refused within an RPC that goes on is recorded ([rpc.Interceptors.Record]). It calls these methods, in this order:
//
//   - [Caller.Init] with the context of the RPC.
//   - [Registry.Register] with the RPC. A drain, the expiry of its credentials and an operator end it from
//     now on.
//   - [Caller.AwaitTurn] before each watch, if an RPC may carry many.
//   - [Registration.SetBegan] with each watch, because its age includes the wait for the store.
//   - [Registry.AdmitWatch] with each watch: rights, the parsed request and all limits.
//   - [Registry.Begin] when the store is fresh enough, before dispatch.Stream.Start. Operators see the watch
//     from now on.
//   - [Registry.Report] when the client has reported, if reports come with the stream.
//   - [Registry.End] with each watch when it has ended or was refused, and [Registry.Unregister] with the RPC.
//
// It calls [Registry.EndAt] for the time limits ([Registry.TimeLimit], and that of the request), and ends the
// RPC or the watch when the registry says so ([RPC] and [Watch]). [LastBookmark] is for the stream. When the
// server ends the RPC, the entrance calls [Registry.CutOffAfter], for a client that does not read its last
// messages.
//
// The stream runs on the workers of its connection ([Queues.Of]).
//
// The sink has a quota.Slot and a grpcmsg.SendWindow. These are its duties:
//
//   - when it is made: quota.Slot.Init, and grpcmsg.SendWindow.Init with dispatch.Stream.Ready
//   - with each watch: quota.Slot.Expect with the interval of its bookmarks
//   - before it sends: quota.Slot.BeginPart for a response with a part, [Registration.BeginReset] for each watch
//     whose message begins a RESET
//   - when there is room again, or gRPC has accepted the part: quota.Slot.EndPart
//   - when gRPC has a message: [Counters.Note], also for the batches of a group (CountSent); the tracer of the
//     resource, for live messages; the slow log, for the first message and for each catch-up
//   - when the RPC has ended: quota.Slot.Close
//
// Package server tests these duties for all entrances.
//
// An entrance cannot forget a limit on watches: Begin accepts only a watch that AdmitWatch has admitted. What
// operators see of a watch ([StatusOf]) and metrics read ([SampleOf]) is made here, from what the
// entrance knows of the messages ([Progress]).
//
// # Goroutines and locks
//
// The entrance's mutex guards the part of a Registration that changes (Watch.Mutex). It is held for moments,
// and before the lock of the registry, which is taken when an RPC begins or ends, and a few times to list all watches.
//
// Besides the workers, two goroutines run until [Registry.Stop]: they look for overdue write fences, and
// limit the memory of the process while very many watches begin or end.
package registry
