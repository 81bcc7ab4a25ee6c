// Package frames follows the HTTP/2 frames that clients send, before gRPC reads them.
//
// It exists because grpc-go reads each message into memory as a whole, and offers no hook
// that says how large the message is before it does so. Clients that have not
// authenticated could fill the memory of the server with requests.
//
// A [Conn] sits between the socket and gRPC. It parses the headers of frames and, in DATA
// frames, the 5 bytes that precede each gRPC message. A [Request] is what has come of one
// stream: the server waits for the size of its message, reserves the memory, and only then
// lets gRPC read it.
//
// A request that violates a rule ends its own stream, not the connection: a proxy may carry
// the requests of many clients on it.
//
// What has to be counted per connection, such as streams and resets, belongs in Conn:
// grpc-go has no hook for these either, and Conn sees each of them once, before gRPC does.
//
// One goroutine reads a Conn. The methods of a Request may be called from any goroutine.
package frames
