// Package object defines the vocabulary of all other packages: objects, their keys, and
// their changes.
//
//   - [Revision], [Epoch] and [Position] are points in time. A [Position] is where a
//     client can resume. Positions are comparable only within one epoch.
//   - [Key] and [Scope] are places. A key is relative to its resource; only the store
//     knows the etcd prefix of the resource.
//   - [Record] is a key as the store holds it. A [Codec] decodes it, and [Build] makes
//     an [Object] of it. A [Change] is one put or delete, with the object before and
//     after it. An [Event] is a change as one watch sees it.
//   - [Op] and [Commit] are a write and its result. [Watch] is a watch of the store.
//   - [Schema] locates labels and fields inside values.
//
// Objects and changes are immutable after construction. Thousands of goroutines read
// them concurrently, and the value of a record may share memory with an embedded etcd.
// No goroutine may write to them, not even temporarily.
package object
