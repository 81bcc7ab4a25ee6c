// Package access says who makes a request and what they may do. It knows neither
// gRPC nor HTTP: the servers show it credentials, and ask.
//
// A caller shows a bearer token, which is one of a file (tokens.go) or a JWT (package
// jwt), or a client certificate, which TLS has checked (certificate.go). What that is
// worth is a [Pass]: an identity, and how long it is one. Nothing here compares
// secrets or checks signatures by itself: tokens are looked up by their hash, and the
// rest is done by libraries.
package access
