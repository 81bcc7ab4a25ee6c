package tracing

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/backend"
)

// The attributes of spans.
const (
	resourceAttribute   = "fanoutd.resource"
	revisionAttribute   = "fanoutd.revision"
	feedsAttribute      = "fanoutd.feeds"      // number of feeds that received an event
	deliveriesAttribute = "fanoutd.deliveries" // number of watches that got the change
	watcherAttribute    = "fanoutd.watcher"    // id of the watch in AdminService
	peerAttribute       = "client.address"
	eventsAttribute     = "fanoutd.events" // events in the message
	bytesAttribute      = "fanoutd.bytes"  // size of the message
)

// write is a traced write. The mutex of its tracer guards all fields.
type write struct {
	tracer     *WriteTracer
	revision   object.Revision
	span       trace.Span
	within     context.Context // contains the span
	timer      *time.Timer     // ends the span
	deliveries int             // with and without spans
	spans      int             // of deliveries
	last       time.Time       // time of the last delivery or dispatch
}

func newWrite(t *WriteTracer, parent trace.SpanContext, began time.Time, at object.Revision) *write {
	w := &write{tracer: t, revision: at, last: time.Now()}
	w.within, w.span = t.tracer.Start(
		trace.ContextWithSpanContext(context.Background(), parent), "fan-out",
		trace.WithTimestamp(began), trace.WithAttributes(
			attribute.String(resourceAttribute, t.resource), attribute.Int64(revisionAttribute, int64(at)),
		))
	return w
}

// record creates a span with the given start and end.
func (w *write) record(name string, began, ended time.Time, links []trace.Link, attributes ...attribute.KeyValue) {
	_, span := w.tracer.tracer.Start(w.within, name, trace.WithTimestamp(began), trace.WithLinks(links...), trace.WithAttributes(attributes...))
	span.End(trace.WithTimestamp(ended))
}

func (w *write) dispatched(d feed.Dispatched) {
	w.record("apply", d.Arrived, d.Applied, nil)
	w.record("dispatch", d.Began, d.Ended, nil, attribute.Int(feedsAttribute, d.Feeds))
	w.span.SetAttributes(attribute.Int(feedsAttribute, d.Feeds))
	if d.Ended.After(w.last) { // else a delivery was faster than this report
		w.last = d.Ended
	}
}

// delivered records a message if it contains the change of the write.
func (w *write) delivered(d backend.Delivery) {
	if w.revision <= d.After || w.revision > d.Upto || !d.Shows(w.revision) {
		return
	}
	w.last = d.Sent
	w.deliveries += 1 + d.Others
	if w.spans == maxDeliverSpans {
		return
	}
	w.spans++
	var links []trace.Link
	if watch := trace.SpanContextFromContext(d.Watch); watch.IsSampled() {
		links = []trace.Link{{SpanContext: watch}}
	}
	began := d.Arrived
	if began.IsZero() {
		began = d.Sent
	}
	w.record("deliver", began, d.Sent, links,
		attribute.String(watcherAttribute, d.Watcher), attribute.String(peerAttribute, d.Peer),
		attribute.Int(eventsAttribute, d.Events), attribute.Int(bytesAttribute, d.Bytes))
}

func (w *write) end() {
	w.span.SetAttributes(attribute.Int(deliveriesAttribute, w.deliveries))
	w.span.End(trace.WithTimestamp(w.last))
}
