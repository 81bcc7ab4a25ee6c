// Package surface sends a running server everything that can arrive over a network: random
// bytes, HTTP/2 with nonsensical frames, malformed HTTP requests, and random but well-formed
// messages to every RPC. The server may refuse anything. It must not exit, panic, answer
// with an internal error, disturb a well-behaved client, or keep resources for clients that
// have left.
//
// This takes seconds in `make test`. `make fuzz-surface FUZZTIME=10m` runs longer.
package surface
