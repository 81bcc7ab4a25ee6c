package admin_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// Every path refuses unknown parameters.
func TestUnknownParametersAreRefusedEverywhere(t *testing.T) {
	s := open(t, nil)
	var document struct{ Paths map[string]map[string]any }
	if err := json.Unmarshal(s.do(t, "GET", "/openapi.json", "").body, &document); err != nil {
		t.Fatal(err)
	}
	count := 0
	for path, methods := range document.Paths {
		path = strings.NewReplacer("{resource}", "config", "{key}", "a", "{id}", "a").Replace(path)
		for method := range methods {
			body := ""
			if method == "put" || method == "post" {
				body = "{}"
			}
			count++
			a := s.do(t, strings.ToUpper(method), path+"?foo=1", body)
			if found := a.violations(t); a.status != 400 || a.reason(t) != "INVALID_REQUEST" || !slices.Equal(found, []string{"foo"}) {
				t.Errorf("%s %s: %d %s", method, path, a.status, a.body)
			}
		}
	}
	if count < 10 {
		t.Errorf("made only %d requests", count)
	}
}

// The answer to a wrong method lists the allowed ones.
func TestAllowListsTheMethodsOfAPath(t *testing.T) {
	s := open(t, nil)
	for path, want := range map[string]string{
		"/":                                    "GET, HEAD",
		"/openapi.json":                        "GET, HEAD",
		"/v1/resources":                        "GET, HEAD",
		"/v1/resources/config/objects":         "GET, HEAD",
		"/v1/resources/config/objects/a/b":     "GET, HEAD, PUT, DELETE",
		"/v1/resources/config/objects/a%2Fb":   "GET, HEAD, PUT, DELETE",
		"/v1/resources/config/transactions":    "POST",
		"/v1/resources/config/watch":           "GET",
		"/v1/resources/config/objects/x/watch": "GET, HEAD, PUT, DELETE",
		"/v1/watchers/a":                       "DELETE",
	} {
		for _, method := range []string{"PATCH", "OPTIONS"} {
			a := s.do(t, method, path, "")
			if got := a.header.Values("Allow"); a.status != 405 || !slices.Equal(got, []string{want}) {
				t.Errorf("%s %s: %d %s, want %s", method, path, a.status, got, want)
			}
		}
	}
	if a := s.do(t, "PATCH", "/v1/nothing", ""); a.status != 404 || a.header.Get("Allow") != "" {
		t.Errorf("unknown path: %d %v", a.status, a.header)
	}
}

// HEAD answers like GET, without the body.
func TestHead(t *testing.T) {
	s := open(t, nil)
	s.put(t, "a", "1")
	for path, want := range map[string]int{
		"/": 200, "/openapi.json": 200, "/v1/resources": 200, "/v1/watchers": 200,
		"/v1/resources/config/objects": 200, "/v1/resources/config/objects/a": 200, "/v1/resources/config/objects/b": 404,
		"/v1/resources/config/objects?foo=1": 400, "/v1/watchers/a": 405, "/v1/resources/config/watch": 405, "/v1/nothing": 404,
	} {
		a := s.do(t, "HEAD", path, "")
		if a.status != want || len(a.body) > 0 || a.header.Get("Content-Type") == "" {
			t.Errorf("%s: %d %v %s, want %d", path, a.status, a.header, a.body, want)
		}
		if want == 405 || want == 404 && path == "/v1/nothing" {
			continue
		}
		if get := s.do(t, "GET", path, ""); get.status != a.status || get.header.Get("Content-Type") != a.header.Get("Content-Type") {
			t.Errorf("%s: GET returns %d %v, HEAD %d %v", path, get.status, get.header, a.status, a.header)
		}
	}
	if a := s.do(t, "HEAD", "/v1/resources/config/watch", ""); a.header.Get("Allow") != "GET" {
		t.Errorf("%v", a.header)
	}
}

// The grpc-timeout header has no effect over HTTP.
func TestGRPCTimeoutIsIgnored(t *testing.T) {
	s := open(t, nil)
	s.put(t, "a", "1")
	for _, timeout := range []string{"1n", "rubbish"} {
		for _, method := range []string{"GET", "HEAD"} {
			if a := s.do(t, method, "/v1/resources/config/objects/a", "", "Grpc-Timeout", timeout); a.status != http.StatusOK {
				t.Errorf("%s, %s: %d %s", method, timeout, a.status, a.body)
			}
		}
	}
}

// A body with a content encoding is refused.
func TestEncodedBodiesAreRefused(t *testing.T) {
	s := open(t, nil)
	for encoding, want := range map[string]int{"gzip": 415, "identity, br": 415, "identity": 200, "Identity": 200, "": 200} {
		a := s.do(t, "PUT", "/v1/resources/config/objects/a", `{"text": "1"}`, "Content-Encoding", encoding)
		if a.status != want || want == 415 && (a.reason(t) != "UNSUPPORTED_MEDIA_TYPE" || a.header.Get("Accept-Encoding") != "identity") {
			t.Errorf("%q: %d %s", encoding, a.status, a.body)
		}
	}
}
