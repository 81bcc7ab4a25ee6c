// Package admin serves the protocol over HTTP, as JSON, to people and programs that
// have no gRPC at hand. It knows nothing of resources: every request becomes one of
// gRPC over a connection that it is given, so that the same checks, limits and logs
// apply. The paths are in proto/fanout/v1/http.yaml, and grpc-gateway does the
// translation.
//
// What is here is what HTTP needs besides:
//
//	age.go      how old connections may get
//	guard.go    what a browser must not be tricked into
//	body.go     what a request may bring along, and how large it may be
//	query.go    parameters, of which none is ignored
//	status.go   which HTTP status an error has
//	refuse.go   the errors that only HTTP has
//	stream.go   lines as they come, and an end when nobody reads them any more
//	openapi.go  the description of all that
//	page.go     a status page, which is a client of all that
//
// Besides, it is where operators look: probes.go, and operators.go with metrics,
// profiles and channelz.
package admin
