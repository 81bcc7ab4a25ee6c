// Package raw reads gRPC streams off a TCP connection with as little work as possible,
// so that a benchmark measures the server and not its client.
//
// It knows as much of HTTP/2 as it takes to have a server stream: it opens streams,
// answers settings and pings, and gives so large windows that the server never waits
// for an update of them. What comes on a stream is cut into messages of gRPC, which are
// not decoded.
package raw
