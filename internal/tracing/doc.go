// Package tracing sends OpenTelemetry traces to a collector. Each request has a span. A
// sampled write also has a span for its way to the watches:
//
//	fanout.v1.StoreService/Put          the request
//	'- fan-out                          from the write to its last delivery
//	   |- apply                         from the etcd watch into the cache
//	   |- dispatch                      into the logs of the feeds
//	   '- deliver                       to one watch; only the first deliveries have a span
//
// A [WriteTracer] follows the writes of one resource. It recognizes the change of a write by
// its revision, which etcd reports with the response. The change may be dispatched and
// delivered before that response arrives. Therefore the WriteTracer buffers the latest
// dispatches and deliveries while a sampled write is pending.
//
// A trace covers only the server that handled the write, because etcd cannot store a trace
// context with a value.
//
// [New] returns a [Tracing], which the caller closes after all requests have ended.
package tracing
