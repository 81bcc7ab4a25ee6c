// Package raw reads gRPC streams from a TCP connection with as little work as possible, so
// that a benchmark measures the server and not the client.
//
// It implements just enough of HTTP/2 for server streams: it opens streams, answers settings
// and pings, and gives such large windows that the server never waits for an update. It splits
// the data of a stream into gRPC messages and does not decode them.
package raw
