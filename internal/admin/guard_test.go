package admin_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/fanoutd/fanoutd/internal/config"
)

// Requests that a page of another origin can make a browser send have no effect.
func TestPagesOfOtherOriginsCannotWrite(t *testing.T) {
	s := open(t, nil)
	s.put(t, "a", "1")
	s.watch(t, "from_now=true").line()
	id := s.watchers(t)[0].GetId()
	evil := []string{"Origin", "http://evil.example"}
	crossSite := []string{"Sec-Fetch-Site", "cross-site"}
	sameSite := []string{"Sec-Fetch-Site", "same-site", "Origin", "http://localhost:3000"}
	reasons := map[int]string{403: "FOREIGN_ORIGIN", 405: "METHOD_NOT_ALLOWED", 415: "UNSUPPORTED_MEDIA_TYPE"}
	form := []string{"Content-Type", "application/x-www-form-urlencoded"}
	for _, c := range []struct {
		name, method, path, body string
		more                     []string
		status                   int
	}{
		{"a form", "POST", "/v1/resources/config/transactions", `operations=1`, form, 415},
		{"a text", "POST", "/v1/resources/config/transactions", `{"operations": [{"delete": {"key": "a"}}]}`, []string{"Content-Type", "text/plain"}, 415},
		{"another origin", "POST", "/v1/resources/config/transactions", `{"operations": [{"delete": {"key": "a"}}]}`, evil, 403},
		{"another site", "POST", "/v1/resources/config/transactions", `{"operations": [{"delete": {"key": "a"}}]}`, crossSite, 403},
		{"another port", "POST", "/v1/resources/config/transactions", `{"operations": [{"delete": {"key": "a"}}]}`, sameSite, 403},
		{"put", "PUT", "/v1/resources/config/objects/a", `{"text": "2"}`, evil, 403},
		{"delete", "DELETE", "/v1/resources/config/objects/a", "", evil, 403},
		{"end", "DELETE", "/v1/watchers/" + id, "", evil, 403},
		{"delete in disguise", "POST", "/v1/resources/config/objects/a", "x=y", append(form, "X-HTTP-Method-Override", "DELETE"), 415},
		{"delete in better disguise", "POST", "/v1/resources/config/objects/a", "{}", []string{"X-HTTP-Method-Override", "DELETE"}, 405},
		{"may I", "OPTIONS", "/v1/resources/config/objects/a", "", append(evil, "Access-Control-Request-Method", "PUT"), 403},
	} {
		a := s.do(t, c.method, c.path, c.body, c.more...)
		if a.status != c.status || a.reason(t) != reasons[c.status] {
			t.Errorf("%s: want %d, got %d %s", c.name, c.status, a.status, a.body)
		}
		for name := range a.header {
			if strings.HasPrefix(name, "Access-Control-") {
				t.Errorf("%s: the answer has the header %s", c.name, name)
			}
		}
	}
	if got := s.get(t, "a"); got != "1" {
		t.Errorf("the object changed to %s", got)
	}
	if len(s.watchers(t)) != 1 {
		t.Error("the watch was ended")
	}
	// A page of the same origin may write.
	if a := s.do(t, "PUT", "/v1/resources/config/objects/a", `{"text": "2"}`, "Origin", "http://"+s.address, "Sec-Fetch-Site", "same-origin"); a.status != http.StatusOK {
		t.Errorf("got %d %s", a.status, a.body)
	}
}

// A page of another origin cannot make a browser start anything that costs, such as a profile
// or a watch, although it could not read the answer. Links work.
func TestPagesOfOtherOriginsCannotRead(t *testing.T) {
	s := open(t, nil)
	s.put(t, "a", "1")
	image := []string{"Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "image"}
	link := []string{"Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}
	for _, c := range []struct {
		path   string
		mode   []string
		status int // for a request from another site
	}{
		{"/debug/pprof/profile?seconds=1", image, 403},
		{"/debug/pprof/profile?seconds=1", link, 403},
		{"/debug/pprof/trace?seconds=1", link, 403},
		{"/v1/resources/config/watch", image, 403},
		{"/v1/resources/config/watch", link, 403},
		{"/v1/resources/config/objects", image, 403},
		{"/metrics", image, 403},
		{"/", image, 403},
		{"/", link, 200},
		{"/metrics", link, 200},
	} {
		for _, site := range []string{"cross-site", "same-site"} {
			a := s.do(t, "GET", c.path, "", append(c.mode, "Sec-Fetch-Site", site)...)
			if a.status != c.status || a.status == 403 && a.reason(t) != "FOREIGN_ORIGIN" {
				t.Errorf("%s from %s as %s: got %d %s, want %d", c.path, site, c.mode[1], a.status, a.body, c.status)
			}
		}
	}
	// Without encryption, browsers name only the origin, and only of scripts.
	for _, origin := range []string{"http://pages.example.com", "null", "http://%"} {
		a := s.do(t, "GET", "/v1/resources/config/watch", "", "Origin", origin)
		if a.status != 403 || a.reason(t) != "FOREIGN_ORIGIN" {
			t.Errorf("from %s: got %d %s, want 403", origin, a.status, a.body)
		}
	}
	if a := s.do(t, "GET", "/v1/resources/config/objects", "", "Origin", "http://"+s.address); a.status != http.StatusOK {
		t.Errorf("from the own origin: got %d %s, want 200", a.status, a.body)
	}
	for _, site := range []string{"same-origin", "none"} { // of the status page, and of the address bar
		if a := s.do(t, "GET", "/v1/resources/config/objects", "", "Sec-Fetch-Site", site); a.status != http.StatusOK {
			t.Errorf("from %s: got %d %s, want 200", site, a.status, a.body)
		}
	}
	if n := len(s.watchers(t)); n != 0 {
		t.Errorf("got %d watches, want none", n)
	}
}

// The own origin is a scheme, the host and the port, as browsers write it, and nothing else.
func TestOnlyTheOwnOriginIsNotForeign(t *testing.T) {
	s := open(t, func(c *config.Config) { c.AdminHosts = []string{"fanoutd.example.com"} })
	s.put(t, "a", "1")
	hosts := []string{s.address, "localhost:7421", "localhost", "[::1]:7421", "[::1]", "fanoutd.example.com", "fanoutd.example.com:80"}
	own := []string{"http://%", "https://%"} // a proxy may add the encryption
	foreign := []string{
		"http://evil@%", "http://evil:secret@%", "http://@%", "http://:@%", "http://%@evil.example",
		"http://%/", "http://%/evil", "http://%//", "http://%?", "http://%?evil", "http://%#", "http://%#evil", `http://%\`, `http://%\@evil.example`,
		"http://%.", "http://%.evil.example", "http://evil.%", "http://evil.example?%", "http://evil.example#%", "http://evil.example/%",
		"http://%:1", "http://%1", "http://%:",
		"%", "//%", ":%", "http:%", "http:/%", "http:///%", "HTTP://%", "ftp://%", "file://%", "blob:http://%", "chrome-extension://%", "http+x://%",
		"http://%,http://evil.example", "http://% http://evil.example", "http://evil.example http://%", "http://%%",
		"http://[%]", "http://%%00", "http://%%2f", "null", "*", "http://", "http://evil.example",
	}
	for _, host := range hosts {
		origins := map[string]bool{}
		for _, form := range own {
			origins[strings.ReplaceAll(form, "%", host)] = true
		}
		for _, form := range foreign {
			origins[strings.ReplaceAll(form, "%", host)] = false
		}
		for origin, isOwn := range origins {
			for method, body := range map[string]string{"GET": "", "PUT": `{"text": "2"}`} {
				a := s.do(t, method, "/v1/resources/config/objects/a", body, "Host", host, "Origin", origin)
				if (a.status == http.StatusOK) != isOwn || !isOwn && (a.status != http.StatusForbidden || a.reason(t) != "FOREIGN_ORIGIN") {
					t.Errorf("%s of %s from %q: got %d %s", method, host, origin, a.status, a.body)
				}
			}
		}
	}
	// A second header is never overlooked, nor is a word that browsers do not send.
	mine, evil := "http://"+s.address, "http://evil.example"
	for _, two := range [][]string{{mine, evil}, {evil, mine}, {mine, mine}, {"", evil}} {
		req, err := http.NewRequestWithContext(t.Context(), "GET", mine+"/v1/resources/config/objects/a", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header["Origin"] = two
		resp, err := s.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if resp.Body.Close(); resp.StatusCode != http.StatusForbidden {
			t.Errorf("two origins %q: got %d", two, resp.StatusCode)
		}
	}
	for _, site := range []string{"Cross-Site", "cross-site, same-origin", "same-origin, cross-site", "same-origin;x", "other"} {
		if a := s.do(t, "GET", "/v1/resources/config/objects/a", "", "Sec-Fetch-Site", site); a.status != http.StatusForbidden {
			t.Errorf("from %q: got %d %s", site, a.status, a.body)
		}
	}
}

// An error quotes only the beginning of an invalid value.
func TestErrorsAreShort(t *testing.T) {
	s := open(t, nil)
	huge := strings.Repeat("1", 7<<20)
	for name, a := range map[string]answer{
		"a number in the body":   s.do(t, "POST", "/v1/resources/config/transactions", `{"operations": `+huge+`}`),
		"a field of the body":    s.do(t, "POST", "/v1/resources/config/transactions", `{"`+huge+`": 1}`),
		"a condition":            s.do(t, "PUT", "/v1/resources/config/objects/a", `{}`, "If-Match", huge[:60<<10]),
		"the last event":         s.do(t, "GET", "/v1/resources/config/watch", "", "Last-Event-ID", huge[:60<<10]),
		"a type of a value":      s.do(t, "PUT", "/v1/resources/config/objects/a", `{}`, "Content-Type", "application/"+huge[:60<<10]),
		"the type of a form":     s.do(t, "PUT", "/v1/resources/config/objects/a", `{}`, "Content-Type", "multipart/form-data; boundary="+huge[:60<<10]),
		"a name in the query":    s.do(t, "GET", "/v1/resources/config/objects?"+huge[:60<<10]+"=1", ""),
		"a value in the query":   s.do(t, "GET", "/v1/resources/config/objects?page_size="+huge[:60<<10], ""),
		"a query beside a body":  s.do(t, "PUT", "/v1/resources/config/objects/a?"+huge[:60<<10]+"=1", `{}`),
		"an unknown enum value":  s.do(t, "GET", "/v1/resources/config/watch?delivery="+huge[:60<<10], ""),
		"a path without a route": s.do(t, "GET", "/"+huge[:60<<10], ""),
	} {
		if a.status < 400 || a.status >= 500 || len(a.body) > 8<<10 {
			t.Errorf("%s: got %d with %d bytes, want an error of at most 8 KiB", name, a.status, len(a.body))
		}
	}
}

// A host name that merely resolves to the server's address is refused.
func TestUnknownHostNamesAreRefused(t *testing.T) {
	s := open(t, func(c *config.Config) { c.AdminHosts = []string{"fanoutd.example.com", "proxy:8443"} })
	for host, want := range map[string]int{
		s.address:                  200,
		"127.0.0.1":                200,
		"10.1.2.3:80":              200,
		"[::1]:7421":               200,
		"localhost":                200,
		"LOCALHOST:7421":           200,
		"a.localhost:7421":         200,
		"fanoutd.example.com":      200,
		"Fanoutd.Example.com:7421": 200,
		"proxy:8443":               200,
		"proxy":                    421,
		"proxy:80":                 421,
		"evil.example":             421,
		"evil.example:7421":        421,
		"localhost.evil.example":   421,
		"127.0.0.1.evil.example":   421,
		"x.fanoutd.example.com":    421,
	} {
		for _, path := range []string{"/", "/v1/resources", "/nothing"} {
			a := s.do(t, "GET", path, "", "Host", host)
			if got := a.status; got != want && (path != "/nothing" || got == 421 != (want == 421)) {
				t.Errorf("%s%s: want %d, got %d %s", host, path, want, got, a.body)
			}
			if a.status == 421 && a.reason(t) != "UNKNOWN_HOST" {
				t.Errorf("%s%s: got %s", host, path, a.body)
			}
		}
	}
}

func TestSizesAreBounded(t *testing.T) {
	s := open(t, nil)
	large := `"` + strings.Repeat("x", 8<<20) + `"`
	if a := s.do(t, "POST", "/v1/resources/config/transactions", large); a.status != http.StatusRequestEntityTooLarge || a.reason(t) != "BODY_TOO_LARGE" {
		t.Errorf("a large body: %d %s", a.status, a.body)
	}
	// Without Content-Length.
	req, err := http.NewRequestWithContext(t.Context(), "PUT", "http://"+s.address+"/v1/resources/config/objects/a", struct{ *strings.Reader }{strings.NewReader(large)})
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := s.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if resp.Body.Close(); resp.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("a large body in chunks: %d", resp.StatusCode)
	}
	if a := s.do(t, "GET", "/", "", "X-Large", strings.Repeat("x", 80<<10)); a.status != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("a large header: %d", a.status)
	}
	// A value has a limit of its own.
	value := strings.Repeat("x", 1<<20)
	if a := s.do(t, "PUT", "/v1/resources/config/objects/a", value+"x", "Content-Type", "text/plain"); a.status != http.StatusRequestEntityTooLarge || a.reason(t) != "BODY_TOO_LARGE" {
		t.Errorf("a large value: %d %s", a.status, a.body)
	}
	s.put(t, "a", value)
	// The gRPC server checks bodies that HTTP accepts.
	if a := s.do(t, "POST", "/v1/resources/config/transactions", `{"operations": [{"put": {"key": "a", "text": "`+value+`x"}}]}`); a.status != 400 || a.reason(t) != "INVALID_REQUEST" {
		t.Errorf("a large value in a transaction: %d %s", a.status, a.body)
	}
}
