package security

import (
	"context"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc/channelz/grpc_channelz_v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fanoutd/fanoutd/internal/config"
	"github.com/fanoutd/fanoutd/test/certs"
)

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
	w := newWorld(t, func(cfg *config.Config) { cfg.PolicyFile = file })
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
