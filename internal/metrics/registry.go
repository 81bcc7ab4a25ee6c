package metrics

import (
	"crypto/x509"
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"

	grpcprom "github.com/grpc-ecosystem/go-grpc-middleware/providers/prometheus"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/fanoutd/fanoutd/internal/audit"
	"github.com/fanoutd/fanoutd/internal/server"
	"github.com/fanoutd/fanoutd/internal/server/backend"
	"github.com/fanoutd/fanoutd/internal/server/rpc"
	"github.com/fanoutd/fanoutd/internal/version"
)

// Metrics contains all metrics of a process.
type Metrics struct {
	registry *prometheus.Registry
	requests *grpcprom.ServerMetrics
	log      *slog.Logger
}

// handlingBounds are the histogram buckets of request durations in seconds. Reads from
// memory take a fraction of a millisecond; writes depend on etcd's disk.
var handlingBounds = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}

// New returns metrics of the process. Register adds those of the server.
func New(log *slog.Logger) *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		requests: grpcprom.NewServerMetrics(grpcprom.WithServerHandlingTimeHistogram(grpcprom.WithHistogramBuckets(handlingBounds))),
		log:      log,
	}
	m.registry.MustRegister(
		m.requests,
		newBuildInfo(),
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return m
}

// newBuildInfo returns the metric of [collectors.NewBuildInfoCollector] with the version that the
// program itself prints.
func newBuildInfo() prometheus.Collector {
	path, checksum := "unknown", "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		path, checksum = info.Main.Path, info.Main.Sum
	}
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "go_build_info", Help: "Build information about the main Go module.",
		ConstLabels: prometheus.Labels{"path": path, "version": version.Get().Version, "checksum": checksum},
	}, func() float64 { return 1 })
}

// Observers returns the interceptors that count the requests of a server.
func (m *Metrics) Observers() rpc.Observers {
	return rpc.Observers{Unary: m.requests.UnaryServerInterceptor(), Stream: m.requests.StreamServerInterceptor()}
}

// Register adds the metrics of a server, its resources, its store and its audit log, which
// may be nil. The caller calls it at most once.
func (m *Metrics) Register(srv *server.Server, resources []backend.Resource, st Store, log *audit.Log) {
	// Initialize the counters of all methods to 0. Otherwise the rate of the first failure
	// of a method would be unknown.
	m.requests.InitializeMetrics(srv)
	m.registry.MustRegister(newResourceCollector(resources), newWatchCollector(srv), newLimitCollector(srv, log), newStoreCollector(st))
}

// RegisterCertificate adds the metrics of the server certificate, which current returns.
// The caller calls it at most once, and only with TLS.
func (m *Metrics) RegisterCertificate(current func() *x509.Certificate) {
	m.registry.MustRegister(newCertificateCollector(current))
}

// Limits of concurrent scrapes, enough for two Prometheus servers and an operator, and of
// the duration of a scrape, which exceeds the timeout of its requests to etcd.
const (
	maxScrapes    = 4
	scrapeTimeout = 10 * time.Second
)

// Handler returns the HTTP handler of the metrics.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		ErrorLog: errorLog{m.log}, ErrorHandling: promhttp.ContinueOnError,
		MaxRequestsInFlight: maxScrapes, Timeout: scrapeTimeout,
	})
}

// errorLog logs errors of scrapes.
type errorLog struct{ log *slog.Logger }

// Println implements [promhttp.Logger].
func (l errorLog) Println(v ...any) { l.log.Error("could not collect metrics", "error", v) }

// family is the description of a metric.
type family struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
}

// families contains the descriptions of a collector.
type families []*family

// gauge adds a metric whose value rises and falls.
func (all *families) gauge(name, help string, labels ...string) *family {
	return all.add(name, help, prometheus.GaugeValue, labels)
}

// counter adds a metric whose value never decreases while the process lives.
func (all *families) counter(name, help string, labels ...string) *family {
	return all.add(name, help, prometheus.CounterValue, labels)
}

// histogram adds a metric with a distribution of values.
func (all *families) histogram(name, help string, labels ...string) *family {
	return all.add(name, help, prometheus.UntypedValue, labels)
}

func (all *families) add(name, help string, kind prometheus.ValueType, labels []string) *family {
	f := &family{prometheus.NewDesc("fanoutd_"+name, help, labels, nil), kind}
	*all = append(*all, f)
	return f
}

// send sends a value to the registry.
func send[N int | int64 | float64](to chan<- prometheus.Metric, f *family, value N, labels ...string) {
	to <- prometheus.MustNewConstMetric(f.desc, f.kind, float64(value), labels...)
}

// boolValue returns 1 for true and 0 for false.
func boolValue(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (all *families) describe(to chan<- *prometheus.Desc) {
	for _, f := range *all {
		to <- f.desc
	}
}

// certificateCollector reads the validity of the server certificate.
type certificateCollector struct {
	current func() *x509.Certificate
	families

	notBefore, notAfter *family
}

func newCertificateCollector(current func() *x509.Certificate) *certificateCollector {
	c := &certificateCollector{current: current}
	c.notBefore = c.gauge("certificate_not_before_timestamp_seconds", "Start of the validity of the server certificate, in Unix time. Missing without TLS.")
	c.notAfter = c.gauge("certificate_not_after_timestamp_seconds", "End of the validity of the server certificate, in Unix time. Missing without TLS.")
	return c
}

// Describe implements [prometheus.Collector].
func (c *certificateCollector) Describe(to chan<- *prometheus.Desc) { c.describe(to) }

// Collect implements [prometheus.Collector].
func (c *certificateCollector) Collect(to chan<- prometheus.Metric) {
	certificate := c.current()
	send(to, c.notBefore, certificate.NotBefore.Unix())
	send(to, c.notAfter, certificate.NotAfter.Unix())
}
