package observability

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/config"
	"github.com/fanoutd/fanoutd/test/certs"
	"github.com/fanoutd/fanoutd/test/inprocess"
	"github.com/fanoutd/fanoutd/test/loopback"
	"github.com/fanoutd/fanoutd/test/poll"
)

// resource is the default resource of fanoutd.
const resource = "config"

func within(t *testing.T) context.Context {
	t.Helper()
	return poll.Context(t)
}

// instance is a fanoutd in this process, with a client.
type instance struct {
	server *inprocess.Server
	tls    *tls.Config // nil: plain text
	admin  string      // address of the HTTP listener
	etcd   string      // address of the embedded etcd
	conn   *grpc.ClientConn
	reads  fanoutv1.FanoutServiceClient
	writes fanoutv1.StoreServiceClient
}

// start starts a fanoutd and waits until it is ready.
func start(t *testing.T, change func(*config.Config)) *instance {
	t.Helper()
	cfg := inprocess.Config(t)
	cfg.AdminListen, cfg.EmbeddedEtcdListen = loopback.FreeAddress(t), loopback.FreeAddress(t)
	cfg.AuditLog = filepath.Join(t.TempDir(), "audit.jsonl")
	cfg.Resources[0].ValidationFile = filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(cfg.Resources[0].ValidationFile, []byte("checks: []"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg.Resources[0].History = config.NewHistory()
	if change != nil {
		change(&cfg)
	}
	in := &instance{tls: trust(t, cfg), server: inprocess.Start(t, cfg), admin: cfg.AdminListen, etcd: cfg.EmbeddedEtcdListen}
	transport := insecure.NewCredentials()
	if in.tls != nil {
		transport = credentials.NewTLS(in.tls)
	}
	conn, err := grpc.NewClient("passthrough:///"+cfg.Listen,
		grpc.WithTransportCredentials(transport), grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	in.conn, in.reads, in.writes = conn, fanoutv1.NewFanoutServiceClient(conn), fanoutv1.NewStoreServiceClient(conn)
	for in.status(t, "/readyz") != http.StatusOK {
		if t.Context().Err() != nil {
			t.Fatal("the server is not ready")
		}
	}
	return in
}

// encrypted configures a certificate.
func encrypted(t *testing.T) func(*config.Config) {
	t.Helper()
	files := certs.NewAuthority(t).Issue(t, certs.Server).Files(t)
	return func(cfg *config.Config) { cfg.TLSCertFile, cfg.TLSKeyFile = files.Cert, files.Key }
}

// trust returns a TLS configuration that trusts fanoutd's certificate, or nil without TLS.
func trust(t *testing.T, cfg config.Config) *tls.Config {
	t.Helper()
	if cfg.TLSCertFile == "" {
		return nil
	}
	text, err := os.ReadFile(cfg.TLSCertFile)
	pool := x509.NewCertPool()
	if err != nil || !pool.AppendCertsFromPEM(text) {
		t.Fatal("no certificate", err)
	}
	return &tls.Config{RootCAs: pool, ServerName: "localhost"}
}

// get sends an HTTP request.
func (in *instance) get(t *testing.T, path string) (status int, body string) {
	t.Helper()
	transport, scheme := &http.Transport{DisableKeepAlives: true, TLSClientConfig: in.tls}, "http"
	if in.tls != nil {
		scheme = "https"
	}
	req, err := http.NewRequestWithContext(within(t), http.MethodGet, scheme+"://"+in.admin+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(all)
}

func (in *instance) status(t *testing.T, path string) int {
	t.Helper()
	status, _ := in.get(t, path)
	return status
}

// put writes a text.
func (in *instance) put(t *testing.T, key, text string) int64 {
	t.Helper()
	resp, err := in.writes.Put(within(t), &fanoutv1.PutRequest{
		Resource: resource, Put: &fanoutv1.PutOperation{Key: key, Value: &fanoutv1.PutOperation_Text{Text: text}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return resp.GetRevision()
}

// watch starts a watch and reads until it is synced.
func (in *instance) watch(t *testing.T, req *fanoutv1.WatchRequest) grpc.ServerStreamingClient[fanoutv1.WatchResponse] {
	t.Helper()
	req.Resource = resource
	stream, err := in.reads.Watch(within(t), req)
	if err != nil {
		t.Fatal(err)
	}
	for next(t, stream).GetKind() != fanoutv1.WatchResponse_KIND_SYNCED {
	}
	return stream
}

func next(t *testing.T, stream grpc.ServerStreamingClient[fanoutv1.WatchResponse]) *fanoutv1.WatchResponse {
	t.Helper()
	m, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// scrape is the result of a scrape.
type scrape map[string]*dto.MetricFamily

func (in *instance) scrape(t *testing.T) scrape {
	t.Helper()
	status, body := in.get(t, "/metrics")
	if status != http.StatusOK {
		t.Fatalf("/metrics: got %d: %s", status, body)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return families
}

// series is a set of labels.
type series map[string]string

// find returns the only series with at least these labels, or nil.
func (s scrape) find(t *testing.T, name string, with series) *dto.Metric {
	t.Helper()
	var found *dto.Metric
	for _, m := range s[name].GetMetric() {
		has := 0
		for _, l := range m.GetLabel() {
			if with[l.GetName()] == l.GetValue() {
				has++
			}
		}
		if has != len(with) {
			continue
		}
		if found != nil {
			t.Fatalf("%s%v matches more than one series", name, with)
		}
		found = m
	}
	return found
}

// value returns the value of the only series with these labels. For a histogram it is the
// number of observations.
func (s scrape) value(t *testing.T, name string, with series) float64 {
	t.Helper()
	m := s.find(t, name, with)
	switch {
	case m == nil:
		t.Fatalf("no series %s%v", name, with)
	case m.Counter != nil:
		return m.GetCounter().GetValue()
	case m.Gauge != nil:
		return m.GetGauge().GetValue()
	case m.Histogram != nil:
		return float64(m.GetHistogram().GetSampleCount())
	}
	t.Fatalf("%s has an unknown type", name)
	return 0
}

// await scrapes until a value satisfies enough.
func (in *instance) await(t *testing.T, name string, with series, enough func(float64) bool) float64 {
	t.Helper()
	for ctx := within(t); ; {
		s := in.scrape(t)
		if s.find(t, name, with) != nil {
			if v := s.value(t, name, with); enough(v) {
				return v
			} else if ctx.Err() != nil {
				t.Fatalf("timeout: %s%v is %v", name, with, v)
			}
		}
		if ctx.Err() != nil {
			t.Fatalf("timeout: no series %s%v", name, with)
		}
	}
}

func atLeast(least float64) func(float64) bool { return func(v float64) bool { return v >= least } }
func exactly(want float64) func(float64) bool  { return func(v float64) bool { return v == want } }

// labelNames returns the label names of a family, without le and quantile.
func labelNames(f *dto.MetricFamily) []string {
	names := map[string]bool{}
	for _, m := range f.GetMetric() {
		for _, l := range m.GetLabel() {
			names[l.GetName()] = true
		}
	}
	all := []string{}
	for name := range names {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}
