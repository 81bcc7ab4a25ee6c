package admin_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/channelz/grpc_channelz_v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/fanoutd/fanoutd/internal/access"
	"github.com/fanoutd/fanoutd/internal/admin"
	"github.com/fanoutd/fanoutd/internal/config"
)

// door is the admin listener in front of a server with only the health service.
type door struct {
	site
	health *health.Server
}

func openDoor(t *testing.T, cfg admin.Config) *door {
	t.Helper()
	behind, front := listen(t), listen(t)
	d := &door{health: health.NewServer()}
	srv := grpc.NewServer()
	grpc_health_v1.RegisterHealthServer(srv, d.health)
	conn := dial(t, behind.Addr().String())
	cfg.Conn, cfg.Log = conn, slog.New(slog.NewTextHandler(t.Output(), nil))
	s, err := admin.New(cfg.ForEveryone())
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() { _ = srv.Serve(behind) })
	serving.Go(func() {
		if err := s.Serve(front); err != nil {
			t.Error(err)
		}
	})
	d.site = site{address: front.Addr().String(), client: http.Client{Transport: &http.Transport{}}}
	t.Cleanup(func() {
		d.client.CloseIdleConnections()
		s.Stop(context.Background())
		srv.Stop()
		serving.Wait()
	})
	return d
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func dial(t *testing.T, address string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// /readyz follows the health service, also while etcd cannot be reached; /healthz always succeeds.
func TestProbes(t *testing.T) {
	t.Parallel()
	d := openDoor(t, admin.Config{Unready: func() string { return "etcd cannot be reached" }})
	for _, c := range []struct {
		health grpc_health_v1.HealthCheckResponse_ServingStatus
		ready  int
		text   string
	}{
		{grpc_health_v1.HealthCheckResponse_NOT_SERVING, http.StatusServiceUnavailable, "the server is NOT_SERVING: etcd cannot be reached\n"},
		{grpc_health_v1.HealthCheckResponse_SERVING, http.StatusOK, "ok\n"},
	} {
		d.health.SetServingStatus("", c.health)
		if a := d.do(t, "GET", "/readyz", ""); a.status != c.ready || string(a.body) != c.text {
			t.Errorf("%v: /readyz is %d %q", c.health, a.status, a.body)
		}
		if a := d.do(t, "GET", "/healthz", ""); a.status != http.StatusOK || string(a.body) != "ok\n" {
			t.Errorf("%v: /healthz is %d %q", c.health, a.status, a.body)
		}
	}
	d.health.Shutdown() // the first step of a server that stops
	if a := d.do(t, "GET", "/readyz", ""); a.status != http.StatusServiceUnavailable {
		t.Errorf("/readyz of a stopping server is %d", a.status)
	}
	if a := d.do(t, "POST", "/readyz", "{}"); a.status != http.StatusMethodNotAllowed {
		t.Errorf("POST is answered with %d", a.status)
	}
	// Probes are refused under unknown host names, too.
	if a := d.do(t, "GET", "/healthz", "", "Host", "evil.example"); a.status != http.StatusMisdirectedRequest {
		t.Errorf("another host is answered with %d", a.status)
	}
}

// Exactly the endpoints for operators ask Config.Operator, and only the metrics ask Config.Scraper.
func TestOperatorEndpointsAreChecked(t *testing.T) {
	t.Parallel()
	locked := func(context.Context, access.HTTPRequest) error {
		return status.Error(codes.Unauthenticated, "who are you?")
	}
	served := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "metrics") })
	scraper := openDoor(t, admin.Config{Metrics: served, Profiles: true, Operator: locked})
	if a := scraper.do(t, "GET", "/metrics", ""); a.status != http.StatusOK {
		t.Errorf("metrics ask for an operator: got %d", a.status)
	}
	if a := scraper.do(t, "GET", "/debug/pprof/", ""); a.status != http.StatusUnauthorized {
		t.Errorf("profiles do not ask for an operator: got %d", a.status)
	}
	d := openDoor(t, admin.Config{Metrics: served, Profiles: true, Operator: locked, Scraper: locked})
	for path, open := range map[string]bool{
		"/": true, "/openapi.json": true, "/healthz": true, "/readyz": true, "/v1/resources": true,
		"/metrics": false, "/debug/pprof/": false, "/debug/pprof/heap": false, "/debug/pprof/cmdline": false,
		"/debug/pprof/profile": false, "/debug/pprof/trace": false, "/debug/pprof/symbol": false,
	} {
		if a := d.do(t, "GET", path, ""); (a.status != http.StatusUnauthorized) != open {
			t.Errorf("%s is answered with %d", path, a.status)
		}
	}
	_, err := grpc_channelz_v1.NewChannelzClient(dial(t, d.address)).GetServers(t.Context(), &grpc_channelz_v1.GetServersRequest{})
	if status.Code(err) != codes.Unauthenticated {
		t.Errorf("channelz: %v", err)
	}
	_, err = grpc_health_v1.NewHealthClient(dial(t, d.address)).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	if status.Code(err) != codes.Unauthenticated {
		t.Errorf("another service of gRPC: %v", err)
	}
}

// Operators can use metrics, profiles and channelz.
func TestOperatorEndpoints(t *testing.T) {
	s := open(t, func(cfg *config.Config) { cfg.Channelz = true })
	if a := s.do(t, "GET", "/metrics", ""); a.status != http.StatusOK || !strings.Contains(string(a.body), "fanoutd_cacher_revision{") {
		t.Errorf("metrics: %d", a.status)
	}
	for path, part := range map[string]string{
		"/debug/pprof/":                    "goroutine",
		"/debug/pprof/goroutine?debug=1":   "goroutine profile: total",
		"/debug/pprof/profile?seconds=1":   "", // is compressed
		"/debug/pprof/trace?seconds=0.001": "go 1.",
	} {
		if a := s.do(t, "GET", path, ""); a.status != http.StatusOK || len(a.body) == 0 || !strings.Contains(string(a.body), part) {
			t.Errorf("%s: %d, %d bytes", path, a.status, len(a.body))
		}
	}
	channelz := grpc_channelz_v1.NewChannelzClient(dial(t, s.address))
	servers, err := channelz.GetServers(t.Context(), &grpc_channelz_v1.GetServersRequest{})
	if err != nil || len(servers.GetServer()) == 0 {
		t.Errorf("channelz returned %v, %v", servers, err)
	}
	// This connection is still open when the server stops; that must not delay the stop.
	// goleak finds a leak after the tests.
}

// A profile cannot take longer than a minute.
func TestDurationOfProfilesIsBounded(t *testing.T) {
	s := open(t, nil)
	for _, path := range []string{"profile", "trace", "heap"} {
		for _, seconds := range []string{"61", "1e9", "-1", "NaN", "Inf", "x"} {
			a := s.do(t, "GET", "/debug/pprof/"+path+"?seconds="+seconds, "")
			if a.status != http.StatusBadRequest || a.reason(t) != "INVALID_REQUEST" {
				t.Errorf("%s of %s seconds: got %d %s, want 400", path, seconds, a.status, a.body)
			}
		}
	}
}

// Profiles can be switched off without switching off metrics and channelz.
func TestProfilesCanBeSwitchedOff(t *testing.T) {
	s := open(t, func(cfg *config.Config) { cfg.Pprof = config.PprofNever })
	if a := s.do(t, "GET", "/debug/pprof/", ""); a.status != http.StatusNotFound {
		t.Errorf("profiles are answered with %d", a.status)
	}
	if a := s.do(t, "GET", "/metrics", ""); a.status != http.StatusOK {
		t.Errorf("metrics are answered with %d", a.status)
	}
}
