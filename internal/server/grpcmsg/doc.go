// Package grpcmsg sends messages that are already encoded.
//
// gRPC marshals a message for each stream that it sends it on. Our responses consist of
// bytes that many streams share, so they are a [Message]: a list of buffers. The codec of
// [NewCodec] passes these through and leaves all other messages to protobuf. [Encoded] is
// the response of a read; [Join] and [Chain] make one.
//
// gRPC counts the references of each buffer. [Encoded.OnRelease] uses that to find out
// when a response is no longer held: its last buffer is a lease, which calls a function
// when gRPC frees it.
package grpcmsg
