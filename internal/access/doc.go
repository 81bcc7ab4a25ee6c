// Package access authenticates requests: it turns credentials into an identity. It
// knows neither gRPC nor HTTP; the servers pass it the credentials that a request
// shows.
//
// A caller shows a bearer token or a client certificate. The token is either listed in
// a token file ([Tokens]) or a JWT (package jwt); TLS has already verified the
// certificate. [Authenticator.Identify] returns a [Pass]: the [Identity] of the caller
// and how long the credentials stay valid. [Pass.Check] repeats the check later, for
// watches that live longer than a token.
//
// The package compares no secrets and verifies no signatures itself: it looks tokens up
// by their hash and leaves the rest to libraries. Package policy decides what an
// identity may do.
package access
