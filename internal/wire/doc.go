// Package wire assembles the messages of the hot path from bytes that were encoded once.
//
// [Preencode] encodes each object when it is built. Events, snapshots and responses are
// then put together by copying, without marshalling.
//
// This relies on the field numbers. In protobuf, a repeated message field is encoded as
// (tag, length, body) per element, so a list of messages is the concatenation of its
// encoded elements. An object has field number 1 in Event, in ListResponse and in
// GetResponse, and an event has field number 1 in WatchResponse. A preencoded object is
// therefore stored as the ADDED event that carries it:
//
//	0A len(event) | 0A len(object) body | 10 revision | 18 01
//	              '---- ObjectField ---'
//	'--------------------- AddedEvent -----------------------'
//
// A snapshot is a concatenation of AddedEvents, and a List response is a concatenation of
// ObjectFields. A MODIFIED event differs from the ADDED event in the last byte, the type.
// A DELETED event contains the same ObjectField, followed by another revision.
//
// All other code uses the generated messages. The tests verify that both encodings agree.
// Encoded bytes are shared between goroutines and must not be modified.
package wire
