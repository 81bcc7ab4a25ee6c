// Package tracing sends OpenTelemetry traces to a collector: a span for each request,
// and for each write that is sampled what became of it on its way to watches.
//
//	fanout.v1.StoreService/Put          the request
//	'- fan-out                          from the write until nobody is told any more
//	   |- apply                         from etcd's watch into the cache
//	   |- dispatch                      into the logs of feeds
//	   '- deliver                       to one watch; the first ones have a span each
//
// A write is recognized by its revision, which etcd says when it has been committed. The
// change may have come back and gone to watches before that, so while the answer to a
// sampled write is awaited, the last things that were dispatched and delivered are
// remembered; see [WriteTracer].
//
// Nothing of this crosses the store: etcd has no place for a trace beside a value. So a
// write is followed to the watches of the server that took it, and to no others.
package tracing
