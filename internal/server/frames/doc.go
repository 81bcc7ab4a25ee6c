// Package frames follows the HTTP/2 frames that clients send on a connection, before gRPC
// reads them.
//
// grpc-go reads a whole message into memory, and offers no hook that says how large the
// message is before it does so. Without that, clients that have not authenticated could
// fill the memory of the server with requests. Therefore a [Conn] sits between the socket
// and gRPC. It parses the headers of frames, and of DATA frames the 5 bytes that precede
// each gRPC message. A [Request] is what is known of one stream: the server waits for its
// size, reserves the memory, and only then lets gRPC read the message.
//
// A Conn reads ahead in place of gRPC, and never returns more than the frame that gRPC is
// reading. So when it reports the end of a frame, gRPC has processed all frames before it.
//
// This package is also the place to count streams and resets per connection, because gRPC
// has no hook for these either.
//
// One goroutine reads a Conn. All other methods may be called from any goroutine.
package frames
