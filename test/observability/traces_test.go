package observability

import (
	"context"
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/config"
)

// receiver is a trace collector.
type receiver struct {
	collector.UnimplementedTraceServiceServer
	url string

	mu    sync.Mutex
	spans []*tracepb.Span // guarded by mu
	from  []string        // guarded by mu: attributes of their senders
}

func startReceiver(t *testing.T) *receiver {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &receiver{url: "http://" + listener.Addr().String()}
	s := grpc.NewServer()
	collector.RegisterTraceServiceServer(s, r)
	var serving sync.WaitGroup
	serving.Go(func() { _ = s.Serve(listener) })
	t.Cleanup(func() {
		s.Stop()
		serving.Wait()
	})
	return r
}

// Export implements TraceServiceServer.
func (r *receiver) Export(_ context.Context, req *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, from := range req.GetResourceSpans() {
		for _, a := range from.GetResource().GetAttributes() {
			r.from = append(r.from, a.GetKey())
		}
		for _, scope := range from.GetScopeSpans() {
			r.spans = append(r.spans, scope.GetSpans()...)
		}
	}
	return &collector.ExportTraceServiceResponse{}, nil
}

// of returns the spans of a trace with this name.
func (r *receiver) of(trace, name string) (found []*tracepb.Span) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.spans {
		if hex.EncodeToString(s.GetTraceId()) == trace && s.GetName() == name {
			found = append(found, s)
		}
	}
	return found
}

// only returns the only span of a trace with this name.
func (r *receiver) only(t *testing.T, trace, name string) *tracepb.Span {
	t.Helper()
	found := r.of(trace, name)
	if len(found) != 1 {
		t.Fatalf("got %d spans %s in the trace %s, want 1", len(found), name, trace)
	}
	return found[0]
}

// number returns an attribute of a span.
func number(s *tracepb.Span, name string) int64 {
	for _, a := range s.GetAttributes() {
		if a.GetKey() == name {
			return a.GetValue().GetIntValue()
		}
	}
	return -1
}

// text returns an attribute of a span.
func text(s *tracepb.Span, name string) string {
	for _, a := range s.GetAttributes() {
		if a.GetKey() == name {
			return a.GetValue().GetStringValue()
		}
	}
	return ""
}

const trace = "0af7651916cd43dd8448eb211c80319c"

// traced returns the header of a request that belongs to the trace.
func traced(sampled bool) string {
	return fmt.Sprintf("00-%s-b7ad6b7169203331-%02d", trace, map[bool]int{true: 1}[sampled])
}

// putTraced writes a key, as a part of the trace.
func (in *instance) putTraced(t *testing.T, key string) *fanoutv1.PutResponse {
	t.Helper()
	ctx := metadata.AppendToOutgoingContext(within(t), "traceparent", traced(true))
	put := &fanoutv1.PutRequest{Resource: resource, Put: &fanoutv1.PutOperation{Key: key, Value: &fanoutv1.PutOperation_Text{Text: "v"}}}
	written, err := in.writes.Put(ctx, put)
	if err != nil {
		t.Fatal(err)
	}
	return written
}

// TestWriteAndDeliveriesShareATrace checks that a write and its deliveries belong to the
// caller's trace.
func TestWriteAndDeliveriesShareATrace(t *testing.T) {
	r := startReceiver(t)
	in := start(t, func(cfg *config.Config) { cfg.OTLPEndpoint, cfg.TraceSampleRatio = r.url, 0 })
	const watchers = 20 // more than get spans
	var streams []grpc.ServerStreamingClient[fanoutv1.WatchResponse]
	for range watchers {
		streams = append(streams, in.watch(t, &fanoutv1.WatchRequest{}))
	}
	elsewhere := in.watch(t, &fanoutv1.WatchRequest{Scope: &fanoutv1.Scope{Scope: &fanoutv1.Scope_Key{Key: "other"}}})
	tell := func() {
		for _, s := range streams {
			next(t, s)
		}
	}
	in.put(t, "k", "a write that is in no trace")
	tell()

	written := in.putTraced(t, "k")
	tell()
	in.put(t, "other", "what comes behind does not belong to it")
	tell()
	next(t, elsewhere)
	in.server.Stop() // flushes the spans

	request := r.only(t, trace, "fanout.v1.StoreService/Put")
	fanOut := r.only(t, trace, "fan-out")
	if string(fanOut.GetParentSpanId()) != string(request.GetSpanId()) {
		t.Error("the fan-out is not a child of the write")
	}
	if at := number(fanOut, "fanoutd.revision"); at != written.GetRevision() {
		t.Errorf("got a fan-out of revision %d, want %d", at, written.GetRevision())
	}
	if n := number(fanOut, "fanoutd.deliveries"); n != watchers {
		t.Errorf("got %d deliveries, want %d", n, watchers)
	}
	if n := number(r.only(t, trace, "dispatch"), "fanoutd.feeds"); n != 1 {
		t.Errorf("got %d feeds, want 1", n)
	}
	deliveries := r.of(trace, "deliver")
	if len(deliveries) != 16 {
		t.Errorf("got %d deliveries with spans, want 16", len(deliveries))
	}
	for _, s := range append(deliveries, r.only(t, trace, "apply"), r.only(t, trace, "dispatch")) {
		if string(s.GetParentSpanId()) != string(fanOut.GetSpanId()) {
			t.Errorf("%s is not a child of the fan-out", s.GetName())
		}
		if s.GetStartTimeUnixNano() > s.GetEndTimeUnixNano() {
			t.Errorf("%s ends before it begins", s.GetName())
		}
	}
	if n := len(r.spans); n != 4+16 {
		t.Errorf("got %d spans, including requests that are not sampled", n)
	}
}

// TestDeliveriesOverSubscribeShareATrace checks that the trace of a write has a span for each of the
// first watches of a stream that get it, linked to the span of the stream. It counts all of them.
func TestDeliveriesOverSubscribeShareATrace(t *testing.T) {
	key := func(key string) *fanoutv1.WatchRequest {
		return &fanoutv1.WatchRequest{Scope: &fanoutv1.Scope{Scope: &fanoutv1.Scope_Key{Key: key}}}
	}
	var equal []*fanoutv1.WatchRequest
	for range 20 {
		equal = append(equal, &fanoutv1.WatchRequest{})
	}
	for _, c := range []struct {
		what              string
		requests          []*fanoutv1.WatchRequest // the last one gets nothing
		deliveries, spans int
	}{
		{"two", []*fanoutv1.WatchRequest{{}, key("k"), key("other")}, 2, 2},
		{"many", append(equal, key("other")), 20, 16},
	} {
		t.Run(c.what, func(t *testing.T) {
			r := startReceiver(t)
			in := start(t, func(cfg *config.Config) { cfg.OTLPEndpoint, cfg.TraceSampleRatio = r.url, 0 })
			const ofStream = "4bf92f3577b34da6a3ce929d0e0e4736"
			ctx := metadata.AppendToOutgoingContext(within(t), "traceparent", "00-"+ofStream+"-00f067aa0ba902b7-01")
			s := in.subscribe(ctx, t, c.requests...)
			in.putTraced(t, "k")
			for id := range c.requests[1:] {
				s.next(t, uint64(id+1))
			}
			in.server.Stop() // flushes the spans

			fanOut := r.only(t, trace, "fan-out")
			if n := number(fanOut, "fanoutd.deliveries"); n != int64(c.deliveries) {
				t.Errorf("got %d deliveries, want %d", n, c.deliveries)
			}
			stream := r.only(t, ofStream, "fanout.v1.FanoutService/Subscribe")
			watchers := map[string]bool{}
			for _, d := range r.of(trace, "deliver") {
				watchers[text(d, "fanoutd.watcher")] = true
				if string(d.GetParentSpanId()) != string(fanOut.GetSpanId()) {
					t.Error("a delivery is not a child of the fan-out")
				}
				if l := d.GetLinks(); len(l) != 1 || string(l[0].GetSpanId()) != string(stream.GetSpanId()) {
					t.Errorf("got the links %v, want one to the span of the stream", l)
				}
				if number(d, "fanoutd.events") != 1 || number(d, "fanoutd.bytes") <= 0 {
					t.Errorf("got the delivery %v, want one event", d)
				}
			}
			if len(watchers) != c.spans || len(r.of(trace, "deliver")) != c.spans {
				t.Errorf("got spans of the watches %v, want one of each of %d", watchers, c.spans)
			}
		})
	}
}

// TestUnsampledRequestsAreNotTraced checks that the server does not trace a request that its
// caller does not sample.
func TestUnsampledRequestsAreNotTraced(t *testing.T) {
	r := startReceiver(t)
	in := start(t, func(cfg *config.Config) { cfg.OTLPEndpoint, cfg.TraceSampleRatio = r.url, 1 })
	w := in.watch(t, &fanoutv1.WatchRequest{})
	// The caller decides, also over HTTP.
	req, err := http.NewRequestWithContext(within(t), http.MethodPut, "http://"+in.admin+"/v1/resources/config/objects/k", strings.NewReader(`"v"`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Traceparent", traced(false))
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Fatal(resp.Status)
	}
	next(t, w)
	in.server.Stop()
	// The watch is traced, because its caller did not decide. So spans do arrive.
	r.mu.Lock()
	for _, name := range []string{"service.name", "service.version", "host.name", "process.pid"} {
		if !slices.Contains(r.from, name) {
			t.Errorf("spans have no %s, only %q", name, r.from)
		}
	}
	defer r.mu.Unlock()
	for _, s := range r.spans {
		if s.GetName() != "fanout.v1.FanoutService/Watch" {
			t.Errorf("got a span %s of an unsampled request", s.GetName())
		}
	}
	if len(r.spans) == 0 {
		t.Error("got no spans")
	}
}

// TestWritesWithoutEffectAreNotFollowed deletes an absent key, which changes nothing. The
// revision in etcd's answer belongs to another write, so the trace has no fan-out.
func TestWritesWithoutEffectAreNotFollowed(t *testing.T) {
	r := startReceiver(t)
	in := start(t, func(cfg *config.Config) { cfg.OTLPEndpoint, cfg.TraceSampleRatio = r.url, 0 })
	ctx := metadata.AppendToOutgoingContext(within(t), "traceparent", traced(true))
	if _, err := in.writes.Delete(ctx, &fanoutv1.DeleteRequest{Resource: resource, Delete: &fanoutv1.DeleteOperation{Key: "k"}}); err != nil {
		t.Fatal(err)
	}
	in.server.Stop()
	r.only(t, trace, "fanout.v1.StoreService/Delete")
	if n := len(r.of(trace, "fan-out")); n != 0 {
		t.Errorf("got %d fan-out spans, want 0", n)
	}
}

// TestUnreachableCollectorDelaysNothing checks that an unreachable collector delays no
// request and no stop.
func TestUnreachableCollectorDelaysNothing(t *testing.T) {
	in := start(t, func(cfg *config.Config) { cfg.OTLPEndpoint, cfg.TraceSampleRatio = "http://127.0.0.1:1", 1 })
	w := in.watch(t, &fanoutv1.WatchRequest{})
	in.put(t, "k", "v")
	next(t, w)
	in.server.Stop()
}
