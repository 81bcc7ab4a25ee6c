// Package backend has the resources of the server, and what each is served from.
//
// A [Resource] is what the configuration names. Its [Source] is either a cacher with its
// dispatcher, or etcd itself. Both implement the same interface: a [View] is the resource
// at one position, for Get and List, and a [Watcher] delivers the messages of a watch.
// Handlers do not know which of the two they talk to.
//
// All methods may be called from any goroutine, except those of a Watcher, which belongs
// to the goroutine that serves its watch.
package backend
