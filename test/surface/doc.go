// Package surface shows a running server everything that can come over a network:
// bytes that are no protocol at all, HTTP/2 whose frames make no sense, requests of
// HTTP that are none, and random but well-formed messages to every RPC there is. The
// server may refuse whatever it likes. It must not die, panic, answer with an error
// that it calls internal, disturb somebody who behaves, or hold anything for those who
// have gone.
//
// In `make test` that takes seconds; `make fuzz-surface FUZZTIME=10m` takes its time.
package surface
