package metrics

import (
	"crypto/x509"
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"

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
	requests *requests
	log      *slog.Logger
}

// New returns metrics of the process. Register adds those of the server.
func New(log *slog.Logger) *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		requests: newRequests(),
		log:      log,
	}
	m.registry.MustRegister(m.requests.all()...)
	m.registry.MustRegister(
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

// Observers returns what counts the requests of a server.
func (m *Metrics) Observers() rpc.Observers { return rpc.Observers{Calls: m.requests.of} }

// Register adds the metrics of a server, its resources, its store, its audit log and its certificate.
// The last two may be nil. The caller calls it at most once.
func (m *Metrics) Register(srv *server.Server, resources []backend.Resource, st Store, log *audit.Log, certificate func() *x509.Certificate) {
	m.registry.MustRegister(collector(func(s scrape) {
		s.watches(srv)
		s.limits(srv.Usage())
		s.store(st)
		if log != nil {
			s.audit(log)
		}
		if leaf := certificate(); leaf != nil {
			s.certificate(leaf)
		}
		s.resources(resources)
	}))
}

// certificate sends the validity of the server certificate.
func (s scrape) certificate(c *x509.Certificate) {
	gauge(s, "certificate_not_before_timestamp_seconds", "Start of the validity of the server certificate, in Unix time. Missing without TLS.", c.NotBefore.Unix())
	gauge(s, "certificate_not_after_timestamp_seconds", "End of the validity of the server certificate, in Unix time. Missing without TLS.", c.NotAfter.Unix())
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
		ErrorLog: slog.NewLogLogger(m.log.Handler(), slog.LevelError), ErrorHandling: promhttp.ContinueOnError,
		MaxRequestsInFlight: maxScrapes, Timeout: scrapeTimeout,
	})
}
