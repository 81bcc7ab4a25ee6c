// Package sendqueue lets a few workers serve very many streams.
//
// Waking ten thousand goroutines for one event costs more than writing the event. Each of
// them also sends whenever it happens to run, so the transport writes to a connection with
// a hundred streams a hundred times. Here each connection has a [Queue], each queue belongs
// to one worker, and the worker runs the ready tasks of a queue one after another. The
// transport then finds the messages of a connection together and writes them at once.
//
//	Workers ── worker ─┬─ Queue (connection) ─┬─ Task (watch)
//	        └─ worker  └─ Queue               └─ Task
//
// [Task.Ready] may be called by any goroutine and never waits. A task runs on the worker of
// its queue and must not wait for anything but short locks: all other tasks of the worker
// wait with it. Tasks of one worker never overlap, so they may share memory without a lock;
// [Queue.SameWorker] reports whether two queues have the same worker.
//
// [Start] starts the workers, and [Workers.Stop] waits until the running tasks have
// returned.
package sendqueue
