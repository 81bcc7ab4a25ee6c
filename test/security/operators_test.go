package security

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/channelz/grpc_channelz_v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fanoutd/fanoutd/internal/admin"
	"github.com/fanoutd/fanoutd/internal/config"
	"github.com/fanoutd/fanoutd/test/certs"
)

// It must be on before there are connections.
func init() { admin.EnableChannelz() }

// What shows the process as a whole is for those who may administer every resource,
// however they show who they are. Whether it lives and is ready may be asked by anybody.
func TestMetricsAndProfilesAreForOperators(t *testing.T) {
	file := filepath.Join(t.TempDir(), "policy.yaml")
	certs.Write(t, file, []byte(`
rules:
- {subjects: [by-token, by-jwt, by-certificate], verbs: [admin], resources: ["*"]}
- {subjects: [of-one], verbs: ["*"], resources: [config]}
- {subjects: [anonymous], verbs: [get], resources: ["*"]}
`))
	w := newWorld(t, func(cfg *config.Config) { cfg.PolicyFile, cfg.Channelz = file, true })
	token := shows{bearer: w.addToken(t, "by-token")}
	jwt := func(name string) shows { return shows{bearer: w.jwt(t, name, time.Now().Add(time.Minute))} }
	waitFor(t, func() bool {
		code, _, _ := w.get(t, token, "/metrics")
		return code == http.StatusOK
	})
	for name, who := range map[string]struct {
		shows
		status int
	}{
		"token":           {token, http.StatusOK},
		"JWT":             {jwt("by-jwt"), http.StatusOK},
		"certificate":     {w.certificate(t, certs.Subject{CommonName: "by-certificate"}), http.StatusOK},
		"of one resource": {jwt("of-one"), http.StatusForbidden},
		"somebody":        {w.certificate(t, certs.Subject{CommonName: "somebody"}), http.StatusForbidden},
		"wrong token":     {shows{bearer: "wrong"}, http.StatusUnauthorized},
		"nobody":          {shows{}, http.StatusUnauthorized},
	} {
		for _, path := range []string{"/metrics", "/debug/pprof/", "/debug/pprof/cmdline"} {
			code, header, body := w.get(t, who.shows, path)
			if code != who.status {
				t.Errorf("%s sees %s: %d %s", name, path, code, body)
			}
			if (code == http.StatusUnauthorized) != (header.Get("WWW-Authenticate") == "Bearer") {
				t.Errorf("%s is answered by %s with %v", name, path, header)
			}
		}
		for _, path := range []string{"/healthz", "/readyz"} {
			if code, _, body := w.get(t, who.shows, path); code != http.StatusOK {
				t.Errorf("%s asks %s: %d %s", name, path, code, body)
			}
		}
	}
	channelz := func(s shows) codes.Code {
		ctx, cancel := context.WithTimeout(within(t), 10*time.Second)
		defer cancel()
		_, err := grpc_channelz_v1.NewChannelzClient(w.dialAdmin(t, s)).GetServers(ctx, &grpc_channelz_v1.GetServersRequest{})
		return status.Code(err)
	}
	if got := channelz(token); got != codes.OK {
		t.Errorf("an operator asks channelz: %v", got)
	}
	if got := channelz(shows{}); got != codes.Unauthenticated {
		t.Errorf("nobody asks channelz: %v", got)
	}
}

// Who is denied what is for operators is recorded like everybody else who is denied
// something, and who is refused again and again is told to come later and not recorded.
func TestDeniedOperatorsAreAudited(t *testing.T) {
	file := filepath.Join(t.TempDir(), "policy.yaml")
	certs.Write(t, file, []byte(`
rules:
- {subjects: [operator], verbs: [admin], resources: ["*"]}
- {subjects: [of-one], verbs: ["*"], resources: [config]}
`))
	log := filepath.Join(t.TempDir(), "audit.log")
	w := newWorld(t, func(cfg *config.Config) {
		cfg.PolicyFile, cfg.AuditLog = file, log
		// What is taken away for a moment is not given back within the test.
		cfg.MaxRequestRate, cfg.MaxRequestBurst = 0.001, 3
	})
	ofOne := w.certificate(t, certs.Subject{CommonName: "of-one"})
	if code, _, _ := w.get(t, ofOne, "/metrics", "User-Agent", "prometheus"); code != http.StatusForbidden {
		t.Errorf("of one resource: %d", code)
	}
	operator := w.certificate(t, certs.Subject{CommonName: "operator"})
	if code, _, _ := w.get(t, operator, "/metrics"); code != http.StatusOK {
		t.Errorf("an operator: %d", code)
	}
	if code, _, _ := w.get(t, shows{bearer: "wrong"}, "/debug/pprof/heap", "User-Agent", "curl"); code != http.StatusUnauthorized {
		t.Errorf("a wrong token: %d", code)
	}
	_, err := grpc_channelz_v1.NewChannelzClient(w.dialAdmin(t, shows{})).GetServers(within(t), &grpc_channelz_v1.GetServersRequest{})
	if status.Code(err) != codes.Unauthenticated {
		t.Errorf("nobody: %v", err)
	}
	later := 0
	for range 3 {
		if code, header, _ := w.get(t, shows{bearer: "wrong"}, "/metrics"); code == http.StatusTooManyRequests && header.Get("Retry-After") != "" {
			later++
		}
	}
	if later != 2 {
		t.Errorf("%d of the last 3 were told to come later, want 2", later)
	}
	if _, _, metrics := w.get(t, operator, "/metrics"); !strings.Contains(metrics, `fanoutd_refused_total{reason="RATE_LIMITED"} 2`) {
		t.Error("those are not counted")
	}

	want := []map[string]any{
		{
			"msg": "denied", "method": "GET /metrics", "identity": "of-one", "authentication": "certificate",
			"user_agent": "prometheus", "code": "PermissionDenied", "reason": "PERMISSION_DENIED",
		},
		{"msg": "denied", "method": "GET /debug/pprof/heap", "user_agent": "curl", "code": "Unauthenticated", "reason": "UNAUTHENTICATED"},
		{"msg": "denied", "method": "POST /grpc.channelz.v1.Channelz/GetServers", "code": "Unauthenticated", "reason": "UNAUTHENTICATED"},
		{"msg": "denied", "method": "GET /metrics", "code": "Unauthenticated", "reason": "UNAUTHENTICATED"},
	}
	var got []map[string]any
	waitFor(t, func() bool { got = recorded(t, log); return len(got) >= len(want) })
	for i, r := range got {
		if peer, _ := r["peer"].(string); !strings.HasPrefix(peer, "127.0.0.1:") {
			t.Errorf("the peer is %v", r["peer"])
		}
		if i > 1 {
			delete(r, "user_agent") // of libraries
		}
		delete(r, "peer")
		delete(r, "time")
		delete(r, "level")
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// recorded returns the records of an audit log that is being written.
func recorded(t *testing.T, path string) (records []map[string]any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		var r map[string]any
		if !bytes.HasSuffix(line, []byte("\n")) {
			break // is being written
		}
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatal(err)
		}
		records = append(records, r)
	}
	return records
}
