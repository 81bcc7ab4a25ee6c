// Package backend has the resources of the server, and what each is served from.
//
// A [Resource] is what the configuration names. Its [Source] is either a cacher with its
// dispatcher, or etcd itself. Both implement the same interface: a [View] is the resource
// at one position, for Get and List. A watch is served by the dispatcher, or by a
// [direct.Reader] of its own.
//
// All methods may be called from any goroutine.
package backend
