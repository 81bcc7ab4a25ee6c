// Package request parses and validates the requests of the protocol.
//
// A request is parsed once, before it costs anything: a generated message becomes a typed
// value, such as a [Watch], a [Page] of a list, or the operations of a [Batch]. A
// [Checker] collects what is wrong with it, field by field, so that the client learns
// everything at once. Handlers parse, authorize and act, in this order.
//
// Nothing here asks the cacher or the store. A page token is only decoded here; whether
// its position still exists is found out by reading.
package request
