// Package wire makes the bytes of the hot path: each object is encoded once when
// it is built, and everything that is sent later is put together from that.
//
// The law of the field numbers. In protobuf a repeated message field is (tag,
// length, body) once per element, so a list of messages is the concatenation of
// its encoded elements. An object has field number 1 in Event, in ListResponse
// and in GetResponse, and an event has field number 1 in WatchResponse. A preencoded
// object is therefore stored as the ADDED event that carries it:
//
//	0A len(event) | 0A len(object) body | 10 01
//	              '---- ObjectField ---'
//	'-------------- AddedEvent ----------------'
//
// A snapshot is a concatenation of AddedEvents, a List response one of
// ObjectFields, a MODIFIED event differs in its last byte. mod_revision comes
// last in the body, because a DELETED event replaces it and nothing else.
//
// The generated code says the same to everybody who is not in a hurry; the tests
// hold the two against each other.
package wire
