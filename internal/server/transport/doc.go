// Package transport has the connections of the server: how they are accepted, secured and
// configured, and what a request can know about its own connection.
//
//   - [LimitListener] admits connections, refuses them, or delays their first read.
//   - [ServerOptions] and [ConnectionOptions] configure gRPC: TLS, keepalive, windows,
//     ages. A connection from outside is wrapped in [frames.Conn]. It is closed soon after
//     the certificate of its client has expired.
//   - A [LocalListener] accepts connections from within the process. Only these may name
//     the client on whose behalf they make a request.
//   - [CallerOf], [Header], [IsLocal] and [FramesOf] look at the context of a request.
package transport
