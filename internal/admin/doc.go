// Package admin serves the protocol over HTTP as JSON, for people and programs that do
// not use gRPC, and the endpoints for operators. It turns each request into a gRPC
// request over an in-process connection, so the same checks, limits and logs apply. The
// paths are in proto/fanout/v1/http.yaml, and grpc-gateway does the translation.
//
// The package adds what HTTP needs beyond that:
//
//	guard.go           protection against requests that a browser was tricked into
//	origin.go          pages of other origins that may use the API
//	body.go            which bodies are accepted, and their size
//	value.go           values as bodies of PUT and GET
//	call.go            what the gateway does not translate
//	query.go           query parameters; unknown ones are errors
//	status.go          the HTTP status of an error
//	refusal.go         errors that only HTTP has
//	stream.go          lines of JSON as they come, until the client stops reading
//	event.go           the same as server-sent events, for browsers
//	openapi.go         the OpenAPI document
//	connection_age.go  the maximum age of connections
//
// For people and operators it serves an index of the paths (index.go), a status page
// that is a client of the same paths (status_page.go), probes (probes.go), and metrics,
// profiles and channelz (operators.go).
package admin
