package security

import (
	"context"
	"net/http"
	"net/url"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/config"
	"github.com/fanoutd/fanoutd/test/certs"
)

// The name that credentials give is the one that the policy decides about, over gRPC and
// over HTTP; and nobody gets what is for others by taking a word of the policy for a name.
func TestThePolicyDecidesAboutTheNamesOfCredentials(t *testing.T) {
	file := filepath.Join(t.TempDir(), "policy.yaml")
	certs.Write(t, file, []byte(`
groups:
  readers: [by-jwt]
rules:
- {subjects: [spiffe://example.com/shop/*, by-token], groups: [readers], verbs: [get], resources: [config]}
- {subjects: [anonymous], verbs: [get], resources: [config], keys: [banner]}
`))
	w := newWorld(t, func(cfg *config.Config) { cfg.PolicyFile = file })
	ctx := within(t)
	spiffe := func(id string) shows {
		return w.certificate(t, certs.Subject{CommonName: "by-token", URIs: []string{id}})
	}
	jwt := func(name string) shows { return shows{bearer: w.jwt(t, name, time.Now().Add(time.Minute))} }
	const absent, denied = "NotFound KEY_NOT_FOUND", "PermissionDenied PERMISSION_DENIED"
	token := shows{bearer: w.addToken(t, "by-token")}
	waitFor(t, func() bool { return read(ctx, w.dial(t, token), "a") == absent })
	for name, who := range map[string]struct {
		shows
		a, banner string // what comes of reading these keys
	}{
		"token":                         {token, absent, absent},
		"JWT of a group of the file":    {jwt("by-jwt"), absent, absent},
		"certificate":                   {spiffe("spiffe://example.com/shop/web"), absent, absent},
		"another certificate":           {spiffe("spiffe://example.com/shopping/web"), denied, denied},
		"another JWT":                   {jwt("by-jwt2"), denied, denied},
		"who is called anonymous":       {jwt("anonymous"), denied, denied},
		"who is called everybody":       {jwt("*"), denied, denied},
		"who is called like the family": {jwt("spiffe://example.com/shop/*"), absent, absent},
		"who shows nothing":             {shows{}, refused, absent},
	} {
		conn := w.dial(t, who.shows)
		for key, want := range map[string]string{"a": who.a, "banner": who.banner} {
			if got := read(ctx, conn, key); got != want {
				t.Errorf("%s reads %s: %s, want %s", name, key, got, want)
			}
			status := map[string]int{absent: http.StatusNotFound, denied: http.StatusForbidden, refused: http.StatusUnauthorized}[want]
			if code, _, body := w.get(t, who.shows, "/v1/resources/config/objects/"+url.PathEscape(key)); code != status {
				t.Errorf("%s reads %s over HTTP: %d %s, want %d", name, key, code, body, status)
			}
		}
	}
}

// read reads a key and returns what comes of it.
func read(ctx context.Context, conn *grpc.ClientConn, key string) string {
	_, err := fanoutv1.NewFanoutServiceClient(conn).Get(ctx, &fanoutv1.GetRequest{Resource: "config", Key: key}, grpc.WaitForReady(true))
	return reasonOf(err)
}
