package admin_test

import (
	"net/http"
	"strings"
	"testing"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/config"
)

// Pages of the origins of the configuration may use the API, and nothing else of the listener.
// Other origins may not, however similar they are.
func TestListedOriginsMayUseTheAPI(t *testing.T) {
	s := open(t, func(c *config.Config) {
		c.HTTPOrigins = []string{"https://app.example.com", "http://localhost:3000"}
	})
	s.put(t, "a", "1")
	const object = "/v1/resources/config/objects/a"
	cors := func(a answer) string { return a.header.Get("Access-Control-Allow-Origin") }
	for _, c := range []struct {
		origin string
		listed bool
	}{
		{"https://app.example.com", true},
		{"http://localhost:3000", true},
		{"http://app.example.com", false},
		{"https://app.example.com:8443", false},
		{"https://APP.example.com", false},
		{"https://app.example.com/", false},
		{"https://app.example.com.evil.example", false},
		{"https://evil.example?https://app.example.com", false},
		{"https://x.app.example.com", false},
		{"http://localhost", false},
		{"null", false},
		{"*", false},
	} {
		from := []string{"Origin", c.origin, "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "cors", "Sec-Fetch-Dest", "empty"}
		want, allow := http.StatusForbidden, ""
		if c.listed {
			want, allow = http.StatusOK, c.origin
		}
		for _, request := range [][3]string{
			{"GET", object, ""},
			{"GET", object + "?raw", ""},
			{"PUT", object, "2"},
			{"DELETE", object, ""},
			{"PUT", object, "1"},
			{"POST", "/v1/resources/config/transactions", `{"operations": [{"put": {"key": "b"}}]}`},
		} {
			a := s.do(t, request[0], request[1], request[2], from...)
			if a.status != want || cors(a) != allow || a.header.Get("Vary") != "Origin" {
				t.Errorf("%s %s of %s: got %d %v", request[0], request[1], c.origin, a.status, a.header)
			}
		}
		preflight := s.do(t, "OPTIONS", object, "", append(from, "Access-Control-Request-Method", "PUT", "Access-Control-Request-Headers", "authorization")...)
		if (preflight.status == http.StatusNoContent) != c.listed || cors(preflight) != allow || c.listed != strings.Contains(preflight.header.Get("Access-Control-Allow-Headers"), "Authorization") {
			t.Errorf("preflight of %s: got %d %v", c.origin, preflight.status, preflight.header)
		}
		if a := s.do(t, "OPTIONS", object, "", from...); a.status == http.StatusNoContent || a.status == http.StatusOK {
			t.Errorf("OPTIONS of %s, which is no preflight: got %d", c.origin, a.status)
		}
		// An error can be read as well.
		if a := s.do(t, "GET", object+"?foo=1", "", from...); c.listed && a.status != http.StatusBadRequest || cors(a) != allow {
			t.Errorf("an error for %s: got %d %v", c.origin, a.status, a.header)
		}
		for _, path := range []string{"/", "/metrics", "/debug/pprof/cmdline", "/openapi.json", "/page/main.js"} {
			if a := s.do(t, "GET", path, "", from...); a.status != http.StatusForbidden || cors(a) != "" {
				t.Errorf("%s of %s: got %d %v", path, c.origin, a.status, a.header)
			}
		}
		// The host name in the URL is checked first.
		if a := s.do(t, "GET", object, "", append(from, "Host", "evil.example")...); a.status != http.StatusMisdirectedRequest || cors(a) != "" {
			t.Errorf("another host for %s: got %d %v", c.origin, a.status, a.header)
		}
	}
	// A page that does not ask to read a response is foreign.
	image := []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "image"}
	if a := s.do(t, "GET", object, "", image...); a.status != http.StatusForbidden {
		t.Errorf("an image: got %d", a.status)
	}
	// Clients that are no browsers have no origin.
	if a := s.do(t, "GET", object, ""); a.status != http.StatusOK || cors(a) != "" {
		t.Errorf("without an origin: got %d %v", a.status, a.header)
	}
	w := s.events(t, watchPath+"?from_now=true", "Origin", "https://app.example.com", "Sec-Fetch-Site", "cross-site")
	w.next(fanoutv1.WatchResponse_KIND_BOOKMARK)
}
