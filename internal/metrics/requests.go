package metrics

import (
	"path"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/fanoutd/fanoutd/internal/server/rpc"
)

// requests has the metrics of requests. Their names, labels and meaning are those of
// go-grpc-middleware, which dashboards know. Its interceptors would look up the metrics of a method
// five times in each request.
type requests struct {
	started, handled, received, sent *prometheus.CounterVec
	seconds                          *prometheus.HistogramVec
}

// handlingBounds are the histogram buckets of request durations in seconds. Reads from
// memory take a fraction of a millisecond; writes depend on etcd's disk.
var handlingBounds = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}

func newRequests() *requests {
	labels := []string{"grpc_type", "grpc_service", "grpc_method"}
	counters := func(name, help string, more ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, append(labels, more...))
	}
	return &requests{
		started:  counters("grpc_server_started_total", "Total number of RPCs started on the server."),
		handled:  counters("grpc_server_handled_total", "Total number of RPCs completed on the server, regardless of success or failure.", "grpc_code"),
		received: counters("grpc_server_msg_received_total", "Total number of RPC stream messages received on the server."),
		sent:     counters("grpc_server_msg_sent_total", "Total number of gRPC stream messages sent by the server."),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "grpc_server_handling_seconds", Buckets: handlingBounds,
			Help: "Histogram of response latency (seconds) of gRPC that had been application-level handled by the server.",
		}, labels),
	}
}

func (r *requests) all() []prometheus.Collector {
	return []prometheus.Collector{r.started, r.handled, r.received, r.sent, r.seconds}
}

// of returns the counters of a method. They begin with 0 for each status code: otherwise the rate of
// the first failure would be unknown. A server and its in-process twin share them.
func (r *requests) of(info *grpc.StreamServerInfo) rpc.CallObserver {
	service, name := path.Split(info.FullMethod)
	labels := []string{typeOf(info), strings.Trim(service, "/"), name}
	m := &methodCounters{
		unary: rpc.IsUnary(info), started: r.started.WithLabelValues(labels...), received: r.received.WithLabelValues(labels...),
		sent: r.sent.WithLabelValues(labels...), seconds: r.seconds.WithLabelValues(labels...),
	}
	for code := range m.handled {
		m.handled[code] = r.handled.WithLabelValues(append(labels, codes.Code(code).String())...)
	}
	return m
}

func typeOf(info *grpc.StreamServerInfo) string {
	switch {
	case info.IsClientStream && info.IsServerStream:
		return "bidi_stream"
	case info.IsClientStream:
		return "client_stream"
	case info.IsServerStream:
		return "server_stream"
	}
	return "unary"
}

// methodCounters counts the calls of one method.
type methodCounters struct {
	unary                   bool
	started, received, sent prometheus.Counter
	handled                 [codes.Unauthenticated + 1]prometheus.Counter // by status code
	seconds                 prometheus.Observer
}

// Begin implements [rpc.CallObserver].
func (m *methodCounters) Begin() error {
	m.started.Inc()
	if m.unary {
		m.received.Inc()
	}
	return nil
}

// Received implements [rpc.CallObserver].
func (m *methodCounters) Received() { m.received.Inc() }

// Sent implements [rpc.CallObserver].
func (m *methodCounters) Sent() { m.sent.Inc() }

// End implements [rpc.CallObserver].
func (m *methodCounters) End(code codes.Code, took time.Duration) {
	if m.unary && code == codes.OK {
		m.sent.Inc()
	}
	if int(code) >= len(m.handled) {
		code = codes.Unknown
	}
	m.handled[code].Inc()
	m.seconds.Observe(took.Seconds())
}
