// Package frames follows the HTTP/2 frames of a connection, below gRPC or net/http. Both lack
// hooks that a server needs:
//
//   - gRPC reads each message into memory as a whole, and has no hook for its size
//     before that. Clients that have not authenticated could fill the memory of the server with
//     requests. A [Conn] parses the 5 bytes that precede each gRPC message. A [Request] is the received
//     part of one stream: the server waits for the size of its message, reserves the
//     memory, and only then lets gRPC read it.
//   - A client may open streams and reset them as fast as it can send. A Conn applies a
//     [Budget]: streams begin in bursts, each in a turn of the budget, and a Conn counts those
//     that are reset at once, before the server has answered them. A client that has used up
//     its budget gets a GOAWAY frame with ENHANCE_YOUR_CALM, and its connection is closed.
//   - gRPC sends GOAWAY to all connections together (GracefulStop) or by their age, but not to
//     one connection at a chosen time. [Conn.GoAway] does.
//
// When a connection is lost, a Conn ends its streams a few at a time before gRPC learns of it.
// gRPC would end all of them at once.
//
// A request that violates a rule ends its own stream, not the connection: a proxy may carry
// the requests of many clients on it.
//
// One goroutine reads a Conn and one writes it. The methods of a Request may be
// called from any goroutine, and those of a Conn whose comments allow it.
package frames
