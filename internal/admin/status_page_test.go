package admin_test

import (
	"io/fs"
	"net/http"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
)

const browserAccepts = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"

// At "/", a browser gets the page, and any other client the index.
func TestStatusPageIsForBrowsers(t *testing.T) {
	s := open(t, nil)
	for accept, page := range map[string]bool{browserAccepts: true, "text/html": true, "*/*": false, "": false, "application/json": false} {
		a := s.do(t, "GET", "/", "", "Accept", accept)
		if got := strings.HasPrefix(string(a.body), "<!doctype html>"); got != page || a.status != http.StatusOK || a.header.Get("Vary") != "Accept" {
			t.Errorf("%q: %d %.40s", accept, a.status, a.body)
		}
		want := map[bool]string{true: "text/html; charset=utf-8", false: "text/plain; charset=utf-8"}[page]
		if got := a.header.Get("Content-Type"); got != want {
			t.Errorf("%q: the content type is %s", accept, got)
		}
	}
	if a := s.do(t, "POST", "/", "{}", "Accept", browserAccepts); a.status != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d %s", a.status, a.body)
	}
	if a := s.do(t, "HEAD", "/", "", "Accept", browserAccepts); a.status != http.StatusOK || len(a.body) > 0 || a.header.Get("Content-Length") == "0" {
		t.Errorf("HEAD: %d %v", a.status, a.header)
	}
}

// The page may load its own files and call its own server. No other answer may be rendered
// as a page.
func TestStatusPagePolicy(t *testing.T) {
	s := open(t, nil)
	page := s.do(t, "GET", "/", "", "Accept", browserAccepts)
	policy := map[string]string{}
	for part := range strings.SplitSeq(page.header.Get("Content-Security-Policy"), "; ") {
		name, value, _ := strings.Cut(part, " ")
		policy[name] = value
	}
	for name, value := range map[string]string{
		"default-src": "'none'", "script-src": "'self'", "style-src": "'self'", "connect-src": "'self'", "img-src": "'self' data:",
		"base-uri": "'none'", "form-action": "'none'", "frame-ancestors": "'none'", "require-trusted-types-for": "'script'", "trusted-types": "'none'",
	} {
		if policy[name] != value {
			t.Errorf("%s is %s, want %s", name, policy[name], value)
		}
		delete(policy, name)
	}
	if len(policy) > 0 {
		t.Errorf("unexpected directives: %v", policy)
	}
	for _, path := range []string{"/page/main.js", "/page/icon.svg", "/openapi.json", "/v1/resources"} {
		a := s.do(t, "GET", path, "")
		if got := a.header.Get("Content-Security-Policy"); got != "default-src 'none'; frame-ancestors 'none'" {
			t.Errorf("%s: the content security policy is %s", path, got)
		}
		if got := a.header.Get("X-Content-Type-Options"); got != "nosniff" {
			t.Errorf("%s: nosniff is %q", path, got)
		}
	}
	if a := s.do(t, "GET", "/", "", "Accept", browserAccepts, "Host", "evil.example"); a.status != http.StatusMisdirectedRequest {
		t.Errorf("under an unknown host name: %d", a.status)
	}
}

// All files that the page refers to exist, and it loads nothing from elsewhere.
func TestStatusPageIsComplete(t *testing.T) {
	s := open(t, nil)
	served := map[string]string{
		".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml",
	}
	reached := map[string]bool{}
	var visit func(file, text string)
	visit = func(file, text string) {
		if strings.Contains(strings.ReplaceAll(text, "http://www.w3.org/", ""), "://") {
			t.Errorf("%s refers to another place", file)
		}
		for _, m := range regexp.MustCompile(`(?:src|href)="(page/[^"]*)"|from '(\./[^']*)'|url\(([^)]*)\)`).FindAllStringSubmatch(text, -1) {
			target := "/" + m[1]
			if m[2] != "" {
				target = path.Join(path.Dir(file), m[2])
			}
			if m[3] != "" {
				t.Errorf("%s loads %s", file, m[3])
			}
			if reached[target] {
				continue
			}
			reached[target] = true
			a := s.do(t, "GET", target, "")
			if a.status != http.StatusOK || a.header.Get("Content-Type") != served[path.Ext(target)] {
				t.Errorf("%s of %s: %d %s", target, file, a.status, a.header.Get("Content-Type"))
			}
			visit(target, string(a.body))
		}
	}
	page := string(s.do(t, "GET", "/", "", "Accept", browserAccepts).body)
	visit("/", page)
	files, err := os.ReadDir("page")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if name := "/page/" + f.Name(); !reached[name] && f.Name() != "index.html" {
			t.Errorf("%s is unused", name)
		}
	}
	if len(reached) < 8 {
		t.Errorf("found only %v: the test misses references", reached)
	}
	// The page does nothing that its policy forbids.
	if found := regexp.MustCompile(`(?i) (style|on[a-z]+)=|<style|<script>|javascript:`).FindString(page); found != "" {
		t.Errorf("the page has %q in it", found)
	}
	for _, path := range []string{"/page", "/page/", "/page/index.html", "/page/nothing.js", "/page/../page.go"} {
		if a := s.do(t, "GET", path, ""); a.status != http.StatusNotFound {
			t.Errorf("%s: %d", path, a.status)
		}
	}
	if a := s.do(t, "PUT", "/page/main.js", "{}"); a.status != http.StatusMethodNotAllowed {
		t.Errorf("PUT: %d", a.status)
	}
}

// No script parses a string as markup.
func TestScriptsParseNoMarkup(t *testing.T) {
	forbidden := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|createContextualFragment|setHTML|\beval\b|new Function|localStorage|document\.cookie`)
	err := fs.WalkDir(os.DirFS("page"), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path.Join("page", name))
		if found := forbidden.Find(text); found != nil {
			t.Errorf("%s has %s", name, found)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A browser revalidates its copy each time and gets no body if it is current.
func TestStatusPageIsCached(t *testing.T) {
	s := open(t, nil)
	tags := map[string]bool{}
	for _, path := range []string{"/", "/page/main.js", "/page/style.css"} {
		first := s.do(t, "GET", path, "", "Accept", browserAccepts)
		tag := first.header.Get("ETag")
		if tag == "" || tags[tag] || first.header.Get("Cache-Control") != "no-cache" {
			t.Errorf("%s: %v", path, first.header)
		}
		tags[tag] = true
		again := s.do(t, "GET", path, "", "Accept", browserAccepts, "If-None-Match", tag)
		if again.status != http.StatusNotModified || len(again.body) > 0 || again.header.Get("ETag") != tag {
			t.Errorf("%s, again: %d %.40s", path, again.status, again.body)
		}
		if a := s.do(t, "GET", path, "", "Accept", browserAccepts, "If-None-Match", `"other"`); a.status != http.StatusOK || len(a.body) == 0 {
			t.Errorf("%s, changed: %d", path, a.status)
		}
	}
	// Other answers are not cached.
	if got := s.do(t, "GET", "/v1/resources", "").header.Get("Cache-Control"); got != "no-store" {
		t.Errorf("resources: %s", got)
	}
}
