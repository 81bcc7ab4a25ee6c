// Package registry has all watches of a server, whatever entrance they came through: package watch
// serves the method Watch, package subscribe the method Subscribe.
//
//	Registry ── RPC, one for each Watch and each Subscribe ── Watch, with its Registration
//	   ├─ Queues, and the workers that serve them
//	   └─ Counters of each resource and worker
//
// An entrance registers its method with [rpc.Registrar.RegisterEntrances]. It has two types of its own. The
// one implements [RPC], the other [Watch], and embeds a [Registration]. With package rpc, its handler does
// what interceptors do for other methods: Admit, Accept, the end with the client (OnDone, OnViolation), and
// Conclude. It calls these methods, in this order:
//
//   - [Registry.Register] with the RPC. A drain, the expiry of its credentials and an operator end it from
//     now on.
//   - [Caller.AwaitTurn] before each watch, if an RPC may carry many.
//   - [Registration.SetBegan] and [Registry.Admit] with each watch: rights, the parsed request and all limits.
//   - [Registry.Begin] when the watch has its watcher. Operators see it from now on.
//   - [Registry.EndAt] at the time limit of the RPC ([Registry.TimeLimit], [LastBookmark]).
//   - [Counters.Note] with each message, and [Registration.BeginReset] before the first one of a RESET.
//   - [Registry.Report] when the client has reported.
//   - [Registry.CutOffAfter] when the server ends the RPC.
//   - [Registry.End] with each watch, and [Registry.Unregister] with the RPC.
//
// Package server tests the duties of all entrances.
//
// An entrance cannot forget a limit on watches: Begin accepts only a watch that Admit has admitted. What
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
