package metrics

import (
	"crypto/x509"
	"log/slog"
	"net/http"
	"time"

	grpcprom "github.com/grpc-ecosystem/go-grpc-middleware/providers/prometheus"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/fanoutd/fanoutd/internal/audit"
	"github.com/fanoutd/fanoutd/internal/server"
	"github.com/fanoutd/fanoutd/internal/server/backend"
	"github.com/fanoutd/fanoutd/internal/server/rpc"
	"github.com/fanoutd/fanoutd/internal/store"
)

// Metrics are all metrics of a server.
type Metrics struct {
	registry *prometheus.Registry
	requests *grpcprom.ServerMetrics
	log      *slog.Logger
}

// handlingBounds are the upper bounds, in seconds, of what is told apart of how long
// requests take: reads of memory take a fraction of a millisecond, writes as long as
// etcd's disk.
var handlingBounds = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}

// New returns the metrics of a process that has no server yet.
func New(log *slog.Logger) *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		requests: grpcprom.NewServerMetrics(grpcprom.WithServerHandlingTimeHistogram(grpcprom.WithHistogramBuckets(handlingBounds))),
		log:      log,
	}
	m.registry.MustRegister(
		m.requests,
		collectors.NewBuildInfoCollector(),
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return m
}

// Observers returns what counts the requests of a server.
func (m *Metrics) Observers() rpc.Observers {
	return rpc.Observers{Unary: m.requests.UnaryServerInterceptor(), Stream: m.requests.StreamServerInterceptor()}
}

// Follow adds what there is to say of a server, its resources, its store and its audit
// log (nil: there is none). It is called once.
func (m *Metrics) Register(srv *server.Server, resources []backend.Resource, st *store.Store, log *audit.Log) {
	// Without this a method that nobody has called has no counters, and the rate of
	// one that fails for the first time is unknown.
	m.requests.InitializeMetrics(srv)
	m.registry.MustRegister(newResourceCollector(resources), newWatchCollector(srv), newLimitCollector(srv, log), newStoreCollector(st))
}

// FollowCertificate adds what there is to say of the certificate that clients are shown.
// It is called once, and not at all in plain text.
func (m *Metrics) RegisterCertificate(shown func() *x509.Certificate) {
	m.registry.MustRegister(newCertificateCollector(shown))
}

// How many scrapes may go on at the same time, and how long one may take: there are
// two Prometheus servers and a curious person, and what asks etcd is given up before.
const (
	maxScrapes    = 4
	scrapeTimeout = 10 * time.Second
)

// Handler returns what serves the metrics.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		ErrorLog: logged{m.log}, ErrorHandling: promhttp.ContinueOnError,
		MaxRequestsInFlight: maxScrapes, Timeout: scrapeTimeout,
	})
}

// logged writes what goes wrong with a scrape to the log.
type logged struct{ log *slog.Logger }

// Println implements [promhttp.Logger].
func (l logged) Println(what ...any) { l.log.Error("metrics cannot be collected", "error", what) }

// family is a metric without its values.
type family struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
}

// families are all that collectors make of what they read.
type families []*family

// gauge makes a family of values that rise and fall.
func (all *families) gauge(name, help string, labels ...string) *family {
	return all.add(name, help, prometheus.GaugeValue, labels)
}

// counter makes a family of values that never fall while the process lives.
func (all *families) counter(name, help string, labels ...string) *family {
	return all.add(name, help, prometheus.CounterValue, labels)
}

// histogram makes a family of distributions.
func (all *families) histogram(name, help string, labels ...string) *family {
	return all.add(name, help, prometheus.UntypedValue, labels)
}

func (all *families) add(name, help string, kind prometheus.ValueType, labels []string) *family {
	f := &family{prometheus.NewDesc("fanoutd_"+name, help, labels, nil), kind}
	*all = append(*all, f)
	return f
}

// send sends a value to whoever collects.
func send[N int | int64 | float64](to chan<- prometheus.Metric, f *family, value N, labels ...string) {
	to <- prometheus.MustNewConstMetric(f.desc, f.kind, float64(value), labels...)
}

// one is 1 for yes and 0 for no.
func one(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

func (all *families) describe(to chan<- *prometheus.Desc) {
	for _, f := range *all {
		to <- f.desc
	}
}

// certificateCollector says from when until when the certificate is good that clients
// are shown.
type certificateCollector struct {
	shown func() *x509.Certificate
	families

	notBefore, notAfter *family
}

func newCertificateCollector(shown func() *x509.Certificate) *certificateCollector {
	c := &certificateCollector{shown: shown}
	c.notBefore = c.gauge("certificate_not_before_timestamp_seconds", "When the certificate begins to be good that clients are shown, in Unix time. Missing in plain text.")
	c.notAfter = c.gauge("certificate_not_after_timestamp_seconds", "When it ends to be good. Missing as above.")
	return c
}

// Describe implements [prometheus.Collector].
func (c *certificateCollector) Describe(to chan<- *prometheus.Desc) { c.describe(to) }

// Collect implements [prometheus.Collector].
func (c *certificateCollector) Collect(to chan<- prometheus.Metric) {
	certificate := c.shown()
	send(to, c.notBefore, certificate.NotBefore.Unix())
	send(to, c.notAfter, certificate.NotAfter.Unix())
}
