package admin_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/access"
	"github.com/fanoutd/fanoutd/internal/config"
)

// anonymousLists is a policy to which rules for alice can be appended.
const anonymousLists = `
rules:
- {subjects: [anonymous], verbs: [list], resources: [config]}
- {subjects: [root], verbs: ["*"], resources: ["*"]}
`

// HTTP denies what gRPC denies, with the same reasons.
func TestRightsOverHTTP(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	dir := t.TempDir()
	tokens, policy := filepath.Join(dir, "tokens"), filepath.Join(dir, "policy.yaml")
	authorization := map[string]string{}
	var lines strings.Builder
	for _, name := range []string{"alice", "root"} {
		token, line, err := access.NewToken(name, nil)
		if err != nil {
			t.Fatal(err)
		}
		authorization[name] = "Bearer " + token
		lines.WriteString(line + "\n")
	}
	write(t, tokens, lines.String())
	write(t, policy, anonymousLists+"- {subjects: [alice], verbs: [get, watch], resources: [config], prefixes: [team]}\n")
	s := open(t, func(cfg *config.Config) { cfg.TokenFile, cfg.PolicyFile = tokens, policy })
	const (
		object  = "/v1/resources/config/objects/team/a"
		unknown = "/v1/resources/unknown/objects/team/a"
	)
	for _, test := range []struct {
		who, method, path string
		status            int
		reason            string
	}{
		{"", "GET", "/v1/resources/config/objects", http.StatusOK, ""},
		{"", "GET", object, http.StatusUnauthorized, "UNAUTHENTICATED"},
		{"", "PUT", object, http.StatusUnauthorized, "UNAUTHENTICATED"},
		{"", "GET", "/v1/watchers", http.StatusUnauthorized, "UNAUTHENTICATED"},
		{"alice", "PUT", object, http.StatusForbidden, "PERMISSION_DENIED"},
		{"alice", "GET", object, http.StatusNotFound, "KEY_NOT_FOUND"},
		{"alice", "GET", unknown, http.StatusForbidden, "PERMISSION_DENIED"},
		{"alice", "GET", "/v1/resources/config/objects", http.StatusForbidden, "PERMISSION_DENIED"},
		{"alice", "GET", "/v1/resources/config/watch", http.StatusForbidden, ""}, // a stream has no reason
		{"alice", "GET", "/v1/resources", http.StatusForbidden, "PERMISSION_DENIED"},
		{"root", "GET", unknown, http.StatusNotFound, "UNKNOWN_RESOURCE"},
		{"root", "PUT", object, http.StatusOK, ""},
	} {
		body, header := "", []string(nil)
		if test.method == "PUT" {
			body = "{}"
		}
		if test.who != "" {
			header = []string{"Authorization", authorization[test.who]}
		}
		a := s.do(t, test.method, test.path, body, header...)
		if a.status != test.status {
			t.Errorf("%q %s %s: %d %s, want %d", test.who, test.method, test.path, a.status, a.body, test.status)
		} else if test.reason != "" && a.reason(t) != test.reason {
			t.Errorf("%q %s %s: reason %s, want %s", test.who, test.method, test.path, a.reason(t), test.reason)
		}
	}

	// A caller may ask what it may do.
	for _, test := range []struct{ who, query, rights string }{
		{"", "resource=config&key=team/a", `["list"]`},
		{"alice", "resource=config&key=team/a", `["get","watch"]`},
		{"alice", "resource=config&key=teams/a", `[]`},
		{"alice", "resource=config", `[]`},
		{"root", "resource=unknown", `["get","list","watch","put","delete","admin","history","purge","skip-validation"]`},
		{"root", "resource=*", `["get","list","watch","put","delete","admin","metrics","history","purge","skip-validation"]`},
	} {
		var header []string
		if test.who != "" {
			header = []string{"Authorization", authorization[test.who]}
		}
		a := s.do(t, "GET", "/v1/rights?"+test.query, "", header...)
		if got, want := strings.TrimSpace(string(a.body)), `{"rights":`+test.rights+`}`; got != want {
			t.Errorf("rights of %q for %s: got %s, want %s", test.who, test.query, got, want)
		}
	}
	for path, status := range map[string]int{
		"?resource=config&key=a&key=b": http.StatusBadRequest, "?resource=config&prefix=a": http.StatusBadRequest, "?key=a": http.StatusBadRequest, "?resource=%ff": http.StatusBadRequest,
	} {
		if a := s.do(t, "GET", "/v1/rights"+path, "", "Authorization", authorization["alice"]); a.status != status {
			t.Errorf("%s: got %d %s, want %d", path, a.status, a.body, status)
		}
	}
	if a := s.do(t, "GET", "/v1/rights?resource=config", "", "Authorization", "Bearer wrong"); a.status != http.StatusUnauthorized {
		t.Errorf("a wrong token asks for its rights: got %d", a.status)
	}

	// The server follows the policy file: a watch ends with its right.
	w := s.watch(t, "prefix=team&from_now=true", "Authorization", authorization["alice"])
	w.next(fanoutv1.WatchResponse_KIND_BOOKMARK)
	write(t, policy+".new", anonymousLists)
	if err := os.Rename(policy+".new", policy); err != nil {
		t.Fatal(err)
	}
	if reason := w.end(); reason != "PERMISSION_DENIED" {
		t.Errorf("the watch ended with %s", reason)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
