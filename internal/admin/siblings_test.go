package admin_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/fanoutd/fanoutd/internal/config"
)

// The status pages of the other servers may read the status of this one, and nothing else.
func TestStatusPagesOfOtherServersMayReadTheStatus(t *testing.T) {
	s := open(t, func(c *config.Config) {
		c.StatusPageServers = []string{"https://node-1.example.com:7421", "https://node-2.example.com:7421"}
	})
	s.put(t, "a", "1")
	const object = "/v1/resources/config/objects/a"
	cors := func(a answer) string { return a.header.Get("Access-Control-Allow-Origin") }
	from := func(origin string) []string {
		return []string{"Origin", origin, "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "cors", "Sec-Fetch-Dest", "empty"}
	}
	preflight := func(path, method, origin string) answer {
		return s.do(t, "OPTIONS", path, "", append(from(origin), "Access-Control-Request-Method", method, "Access-Control-Request-Headers", "authorization")...)
	}
	const sibling = "https://node-2.example.com:7421"
	for _, path := range []string{"/v1/resources", "/v1/watchers", "/v1/resources?measureLag=true", "/v1/watchers?order=ORDER_LAG"} {
		a := s.do(t, "GET", path, "", from(sibling)...)
		if a.status != http.StatusOK || cors(a) != sibling || a.header.Get("Vary") != "Origin" || a.header.Get("Access-Control-Allow-Credentials") != "" {
			t.Errorf("%s: got %d %v", path, a.status, a.header)
		}
		a = preflight(path, "GET", sibling)
		if a.status != http.StatusNoContent || cors(a) != sibling || a.header.Get("Access-Control-Allow-Methods") != "GET" || a.header.Get("Access-Control-Allow-Headers") != "Authorization" {
			t.Errorf("preflight of %s: got %d %v", path, a.status, a.header)
		}
		// A refusal can be read as well.
		if a := s.do(t, "GET", path, "", append(from(sibling), "Authorization", "Bearer wrong")...); cors(a) != sibling {
			t.Errorf("%s with a wrong token: got %d %v", path, a.status, a.header)
		}
	}
	// Nothing else: no objects, no writes, no ends of watches.
	for _, request := range [][2]string{
		{"GET", object},
		{"PUT", object},
		{"DELETE", object},
		{"GET", "/v1/resources/config/watch"},
		{"POST", "/v1/resources/config/transactions"},
		{"POST", "/v1/resources"},
		{"DELETE", "/v1/watchers"},
		{"DELETE", "/v1/watchers/x"},
		{"GET", "/v1/watchers/"},
		{"GET", "//v1/watchers"},
		{"GET", "/v1/rights?resource=config"},
		{"POST", "/v1/space/reclaim"},
		{"GET", "/metrics"},
		{"GET", "/debug/pprof/cmdline"},
	} {
		if a := s.do(t, request[0], request[1], "", from(sibling)...); a.status != http.StatusForbidden || cors(a) != "" {
			t.Errorf("%s %s: got %d %v", request[0], request[1], a.status, a.header)
		}
		if a := preflight(request[1], request[0], sibling); a.status == http.StatusNoContent || cors(a) != "" {
			t.Errorf("preflight of %s %s: got %d %v", request[0], request[1], a.status, a.header)
		}
	}
	// No other page.
	for _, origin := range []string{
		"https://node-3.example.com:7421", "http://node-2.example.com:7421", "https://node-2.example.com", "https://x@node-2.example.com:7421",
		"https://node-2.example.com:7421/", "https://NODE-2.example.com:7421", "null", "*",
	} {
		if a := s.do(t, "GET", "/v1/watchers", "", from(origin)...); a.status != http.StatusForbidden || cors(a) != "" {
			t.Errorf("%s: got %d %v", origin, a.status, a.header)
		}
		if a := preflight("/v1/watchers", "GET", origin); a.status == http.StatusNoContent || cors(a) != "" {
			t.Errorf("preflight of %s: got %d %v", origin, a.status, a.header)
		}
	}
	// The name in the URL is checked first.
	if a := s.do(t, "GET", "/v1/watchers", "", append(from(sibling), "Host", "evil.example")...); a.status != http.StatusMisdirectedRequest || cors(a) != "" {
		t.Errorf("another host: got %d %v", a.status, a.header)
	}

	// The page knows the servers, and may connect to them.
	page := s.do(t, "GET", "/", "", "Accept", browserAccepts)
	if want := "connect-src 'self' https://node-1.example.com:7421 " + sibling + ";"; !strings.Contains(page.header.Get("Content-Security-Policy"), want) {
		t.Errorf("got the policy %s", page.header.Get("Content-Security-Policy"))
	}
	if want := `<meta name="servers" content="https://node-1.example.com:7421 ` + sibling + `">`; !strings.Contains(string(page.body), want) {
		t.Errorf("the page does not have %s", want)
	}
}

// Without the setting, no page of another origin reads the status.
func TestStatusIsPrivateByDefault(t *testing.T) {
	s := open(t, nil)
	a := s.do(t, "GET", "/v1/watchers", "", "Origin", "https://node-1.example.com", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "cors")
	if a.status != http.StatusForbidden || a.header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("got %d %v", a.status, a.header)
	}
}
