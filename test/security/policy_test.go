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
	"github.com/fanoutd/fanoutd/test/poll"
)

// TestPolicyAppliesToIdentitiesFromCredentials checks that the policy applies to the name
// in the credentials, over gRPC and over HTTP, and that a name that looks like a pattern of
// the policy matches nothing else.
func TestPolicyAppliesToIdentitiesFromCredentials(t *testing.T) {
	file := filepath.Join(t.TempDir(), "policy.yaml")
	certs.Write(t, file, []byte(`
groups:
  readers: [by-jwt]
rules:
- {subjects: [spiffe://example.com/shop/*, by-token], groups: [readers], verbs: [get], resources: [config]}
- {subjects: [anonymous], verbs: [get], resources: [config], keys: [banner]}
`))
	w := newFixture(t, func(cfg *config.Config) { cfg.PolicyFile = file })
	ctx := within(t)
	spiffe := func(id string) credential {
		return w.certificate(t, certs.Subject{CommonName: "by-token", URIs: []string{id}})
	}
	jwt := func(name string) credential { return credential{bearer: w.jwt(t, name, time.Now().Add(time.Minute))} }
	const absent, denied = "NotFound KEY_NOT_FOUND", "PermissionDenied PERMISSION_DENIED"
	token := credential{bearer: w.addToken(t, "by-token")}
	poll.Until(t, "the token may read", func() bool { return read(ctx, w.dial(t, token), "a") == absent })
	for name, caller := range map[string]struct {
		credential
		a, banner string // results of reading these keys
	}{
		"token":                              {token, absent, absent},
		"JWT of a group of the file":         {jwt("by-jwt"), absent, absent},
		"certificate":                        {spiffe("spiffe://example.com/shop/web"), absent, absent},
		"another certificate":                {spiffe("spiffe://example.com/shopping/web"), denied, denied},
		"another JWT":                        {jwt("by-jwt2"), denied, denied},
		"a name like anonymous":              {jwt("anonymous"), denied, denied},
		"a name like the wildcard":           {jwt("*"), denied, denied},
		"a name that looks like the pattern": {jwt("spiffe://example.com/shop/*"), absent, absent},
		"no credentials":                     {credential{}, refused, absent},
	} {
		conn := w.dial(t, caller.credential)
		for key, want := range map[string]string{"a": caller.a, "banner": caller.banner} {
			if got := read(ctx, conn, key); got != want {
				t.Errorf("%s reads %s: got %s, want %s", name, key, got, want)
			}
			status := map[string]int{absent: http.StatusNotFound, denied: http.StatusForbidden, refused: http.StatusUnauthorized}[want]
			if code, _, body := w.get(t, caller.credential, "/v1/resources/config/objects/"+url.PathEscape(key)); code != status {
				t.Errorf("%s reads %s over HTTP: got %d %s, want %d", name, key, code, body, status)
			}
		}
	}
}

// read reads a key and returns the result as text.
func read(ctx context.Context, conn *grpc.ClientConn, key string) string {
	_, err := fanoutv1.NewFanoutServiceClient(conn).Get(ctx, &fanoutv1.GetRequest{Resource: "config", Key: key}, grpc.WaitForReady(true))
	return reasonOf(err)
}
