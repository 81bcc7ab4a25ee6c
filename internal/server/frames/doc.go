// Package frames follows the HTTP/2 frames of a connection, below gRPC.
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
// A Conn also applies a [Budget]: it counts the streams that the client opens and abandons,
// and reads no faster than the budget allows. grpc-go and net/http have no hook for that. A
// connection that abandons too many streams gets a GOAWAY frame with ENHANCE_YOUR_CALM and
// is closed.
//
// When a connection is lost, a Conn ends its streams a few at a time before gRPC learns of it.
// gRPC would end all of them at once.
//
// A Conn also sends a GOAWAY when the server wants its client to use another connection.
// grpc-go sends one to all connections together (GracefulStop) or by their age, but not to one
// connection at a chosen time.
//
// One goroutine reads a Conn and one writes it. The methods of a Request may be
// called from any goroutine, and so may those of a Conn that say so.
package frames
