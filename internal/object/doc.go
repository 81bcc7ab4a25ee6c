// Package object has the words that every other package of fanoutd speaks in:
// what an object is, where it lives, what happened to it and when.
//
//   - [Revision], [Epoch] and [Position] say when. A position is a place to
//     resume at; it is only ever compared within one epoch.
//   - [Key] and [Scope] say where. Keys are relative to their resource; the etcd
//     prefix of the resource is known to the store alone.
//   - [Record] is a key as the store holds it; a [Codec] turns it into an
//     [Object]. A [Change] is one put or delete with the object before and after.
//   - [Op] and [Commit] are a write and its outcome.
//
// The law of the package: an object and a change are frozen once they are built.
// Thousands of goroutines read them at the same time, and the value of a record
// may share memory with an etcd server in the same process. Nobody writes to
// them, not even to put something back.
package object
