package security

import (
	"bytes"
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
	"github.com/fanoutd/fanoutd/test/poll"
)

// Channelz must be on before the first connection.
func init() { admin.EnableChannelz() }

// TestMetricsAndProfilesAreForOperators checks that only callers caller may administer every
// resource see process-wide information, whatever credentials they use. Liveness and
// readiness are public.
func TestMetricsAndProfilesAreForOperators(t *testing.T) {
	file := filepath.Join(t.TempDir(), "policy.yaml")
	certs.Write(t, file, []byte(`
rules:
- {subjects: [by-token, by-jwt, by-certificate], verbs: [admin], resources: ["*"]}
- {subjects: [of-one], verbs: ["*"], resources: [config]}
- {subjects: [scraper], verbs: [metrics], resources: ["*"]}
- {subjects: [anonymous], verbs: [get], resources: ["*"]}
`))
	w := newFixture(t, func(cfg *config.Config) { cfg.PolicyFile, cfg.Channelz = file, true })
	token := credential{bearer: w.addToken(t, "by-token")}
	jwt := func(name string) credential { return credential{bearer: w.jwt(t, name, time.Now().Add(time.Minute))} }
	poll.Until(t, "the token is accepted", func() bool {
		code, _, _ := w.get(t, token, "/metrics")
		return code == http.StatusOK
	})
	for name, caller := range map[string]struct {
		credential
		status int
	}{
		"token":           {token, http.StatusOK},
		"JWT":             {jwt("by-jwt"), http.StatusOK},
		"certificate":     {w.certificate(t, certs.Subject{CommonName: "by-certificate"}), http.StatusOK},
		"of one resource": {jwt("of-one"), http.StatusForbidden},
		"scraper":         {jwt("scraper"), http.StatusForbidden},
		"somebody":        {w.certificate(t, certs.Subject{CommonName: "somebody"}), http.StatusForbidden},
		"wrong token":     {credential{bearer: "wrong"}, http.StatusUnauthorized},
		"no credentials":  {credential{}, http.StatusUnauthorized},
	} {
		for _, path := range []string{"/metrics", "/debug/pprof/", "/debug/pprof/cmdline"} {
			code, header, body := w.get(t, caller.credential, path)
			want := caller.status
			if name == "scraper" && path == "/metrics" {
				want = http.StatusOK
			}
			if code != want {
				t.Errorf("%s requests %s: got %d %s", name, path, code, body)
			}
			if (code == http.StatusUnauthorized) != (header.Get("WWW-Authenticate") == "Bearer") {
				t.Errorf("%s requests %s: got header %v", name, path, header)
			}
		}
		for _, path := range []string{"/healthz", "/readyz"} {
			if code, _, body := w.get(t, caller.credential, path); code != http.StatusOK {
				t.Errorf("%s requests %s: got %d %s", name, path, code, body)
			}
		}
	}
	channelz := func(s credential) codes.Code {
		ctx := within(t)
		_, err := grpc_channelz_v1.NewChannelzClient(w.dialAdmin(t, s)).GetServers(ctx, &grpc_channelz_v1.GetServersRequest{})
		return status.Code(err)
	}
	if got := channelz(token); got != codes.OK {
		t.Errorf("channelz for an operator: got %v", got)
	}
	if got := channelz(jwt("scraper")); got != codes.PermissionDenied {
		t.Errorf("channelz for a scraper: got %v", got)
	}
	if got := channelz(credential{}); got != codes.Unauthenticated {
		t.Errorf("channelz without credentials: got %v", got)
	}
}

// TestDeniedOperatorsAreAudited checks that denied requests for operator pages are in the
// audit log like other denials. A caller that keeps failing is asked to retry later, and
// is then not recorded.
func TestDeniedOperatorsAreAudited(t *testing.T) {
	file := filepath.Join(t.TempDir(), "policy.yaml")
	certs.Write(t, file, []byte(`
rules:
- {subjects: [operator], verbs: [admin], resources: ["*"]}
- {subjects: [of-one], verbs: ["*"], resources: [config]}
`))
	log := filepath.Join(t.TempDir(), "audit.log")
	w := newFixture(t, func(cfg *config.Config) {
		cfg.PolicyFile, cfg.AuditLog = file, log
		// The allowance that a failure takes must not come back during the test.
		cfg.MaxRequestRate, cfg.MaxRequestBurst = 0.001, 3
	})
	ofOne := w.certificate(t, certs.Subject{CommonName: "of-one"})
	if code, _, _ := w.get(t, ofOne, "/metrics", "User-Agent", "prometheus"); code != http.StatusForbidden {
		t.Errorf("an administrator of one resource: got %d", code)
	}
	operator := w.certificate(t, certs.Subject{CommonName: "operator"})
	if code, _, _ := w.get(t, operator, "/metrics"); code != http.StatusOK {
		t.Errorf("an operator: got %d", code)
	}
	if code, _, _ := w.get(t, credential{bearer: "wrong"}, "/debug/pprof/heap", "User-Agent", "curl"); code != http.StatusUnauthorized {
		t.Errorf("a wrong token: got %d", code)
	}
	_, err := grpc_channelz_v1.NewChannelzClient(w.dialAdmin(t, credential{})).GetServers(within(t), &grpc_channelz_v1.GetServersRequest{})
	if status.Code(err) != codes.Unauthenticated {
		t.Errorf("no credentials: got %v", err)
	}
	later := 0
	for range 3 {
		if code, header, _ := w.get(t, credential{bearer: "wrong"}, "/metrics"); code == http.StatusTooManyRequests && header.Get("Retry-After") != "" {
			later++
		}
	}
	if later != 2 {
		t.Errorf("got %d of the last 3 requests throttled, want 2", later)
	}
	if _, _, metrics := w.get(t, operator, "/metrics"); !strings.Contains(metrics, `fanoutd_refused_total{limit="max-request-rate",reason="RATE_LIMITED"} 2`) {
		t.Error("throttled requests are not counted")
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
	poll.Until(t, "the denials are recorded", func() bool { got = recorded(t, log); return len(got) >= len(want) })
	for i, r := range got {
		if peer, _ := r["peer"].(string); !strings.HasPrefix(peer, "127.0.0.1:") {
			t.Errorf("got peer %v", r["peer"])
		}
		if i > 1 {
			delete(r, "user_agent") // names the library
		}
		delete(r, "peer")
		delete(r, "time")
		delete(r, "level")
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// recorded returns the records of an audit log that the server is still writing.
func recorded(t *testing.T, path string) (records []map[string]any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		var r map[string]any
		if !bytes.HasSuffix(line, []byte("\n")) {
			break // an incomplete line
		}
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatal(err)
		}
		records = append(records, r)
	}
	return records
}
