// Package grpcmsg sends messages that are already encoded.
//
// gRPC marshals a message once for each stream. Our messages consist of bytes that many
// streams share, so they are not marshalled: a [Message] is a list of buffers. The gRPC codec
// of the server ([NewGRPCCodec], which server.New installs) passes these buffers on, and leaves
// all other messages to protobuf. There are two kinds of Message: [Pieces] for one stream,
// which [Join] and [Chain] make, and a [SharedMessage] for many watches. A [SendWindow] limits the bytes
// of a stream that are in flight.
//
// gRPC counts the references of each buffer and frees it after use. [Pieces.OnRelease] and
// [WriteFence] use that to find out when gRPC no longer holds a message, and when it has
// written a message.
package grpcmsg
