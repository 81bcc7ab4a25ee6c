package admin_test

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/config"
	"github.com/fanoutd/fanoutd/internal/object"
)

// The body of a PUT is the value, with its content type, and GET with raw returns it.
func TestValuesAreRaw(t *testing.T) {
	s := open(t, nil)
	const path = "/v1/resources/config/objects/team/limits"
	for _, c := range []struct{ contentType, body, stored string }{
		{"application/json", "{\"rps\": 100}\n", "application/json"},
		{"application/json; charset=utf-8", `{"text": "not a PutOperation"}`, "application/json; charset=utf-8"},
		{"application/yaml", "rps: 100\n", "application/yaml"},
		{"image/png", "\x89PNG\r\n\x00\xff", "image/png"},
		{"text/plain", "\xff", "text/plain"},
		{"text/plain", "", "text/plain"},
		{"text/event-stream", "data: 1\n\n", "text/event-stream"}, // not taken for a stream
		{"application/x-ndjson", "{}\n", "application/x-ndjson"},
		{"", "no type", "application/octet-stream"},
	} {
		put := s.do(t, "PUT", path, c.body, "Content-Type", c.contentType)
		revision := parse[fanoutv1.PutResponse](t, put.body).GetRevision()
		if put.status != http.StatusOK || put.header.Get("ETag") != fmt.Sprintf("%q", fmt.Sprint(revision)) {
			t.Fatalf("%s: put answers %d %v %s", c.contentType, put.status, put.header, put.body)
		}
		for _, raw := range []string{"?raw", "?raw=true", "?raw=true&any=true"} {
			got := s.do(t, "GET", path+raw, "")
			if got.status != http.StatusOK || string(got.body) != c.body || got.header.Get("Content-Type") != c.stored || got.header.Get("ETag") != put.header.Get("ETag") {
				t.Errorf("%s of %q: %d %v %q", raw, c.body, got.status, got.header, got.body)
			}
		}
		o := call[fanoutv1.GetResponse](t, s, "GET", path+"?raw=false", "").GetObject()
		if o.GetText()+string(o.GetData()) != c.body || o.GetContentType() != c.stored {
			t.Errorf("got %v, want %q of type %s", o, c.body, c.stored)
		}
	}
}

// Values of all codecs can be stored and read raw.
func TestRawValuesOfAllCodecs(t *testing.T) {
	set, err := os.ReadFile("../object/testdata/route.binpb")
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, func(c *config.Config) {
		for _, codec := range object.CodecNames() {
			r := config.NewResource(codec)
			r.Codec = codec
			if r.HasMessages() {
				r.DescriptorSet, r.Descriptors, r.Message = "route.binpb", set, "acme.v1.Route"
			}
			c.Resources = append(c.Resources, r)
		}
	})
	stored := map[string]bool{}
	for _, c := range []struct{ codec, contentType, body, shown, field string }{
		{"json", "application/json", `{"a": 1}`, `{"a": 1}`, ""},
		{"json", "", `{"a": 1}`, `{"a": 1}`, ""},
		{"json", "application/json", `{"a": `, "", "body"},
		{"json", "text/plain", `{"a": 1}`, "", "Content-Type"},
		{"object", "application/json", `{"enabled": tru`, "", "body"},
		{"object", "application/json", "", "", "body"},
		{"object", "application/problem+json; v=1", "\"\xff\"", "", "body"},
		{"object", "application/json", `{"a": 1}`, `{"a": 1}`, ""},
		{"raw", "application/octet-stream", "\x00", "\x00", ""},
		{"raw", "", "\x00", "\x00", ""},
		{"raw", "application/json", `{}`, "", "Content-Type"},
		{"protobuf", "application/json", `{"region": "eu"}`, `{"region":"eu"}`, ""},
		{"protobuf", "application/protobuf", "\x12\x02eu", `{"region":"eu"}`, ""},
		{"protobuf", "", "\x12\x02eu", `{"region":"eu"}`, ""},
		{"protobuf", "application/json", `{"regoin": "eu"}`, "", "body"},
	} {
		path := "/v1/resources/" + c.codec + "/objects/a"
		put := s.do(t, "PUT", path, c.body, "Content-Type", c.contentType)
		if c.field != "" {
			if fields := put.violations(t); put.status != http.StatusBadRequest || !slices.Equal(fields, []string{c.field}) || strings.Contains(string(put.body), "put.") {
				t.Errorf("%s, %s, %q: want an error about %s, got %d %s", c.codec, c.contentType, c.body, c.field, put.status, put.body)
			}
			continue
		}
		got := s.do(t, "GET", path+"?raw", "")
		if put.status != http.StatusOK || string(got.body) != c.shown {
			t.Errorf("%s, %s, %q: put answers %d %s, get %d %q", c.codec, c.contentType, c.body, put.status, put.body, got.status, got.body)
		}
		stored[c.codec] = true
	}
	for _, codec := range object.CodecNames() {
		if !stored[codec] {
			t.Errorf("no value of codec %s was stored", codec)
		}
	}
}

// A write can have its precondition in the headers of HTTP.
func TestPreconditionsInHeaders(t *testing.T) {
	s := open(t, nil)
	const path = "/v1/resources/config/objects/a"
	first := s.do(t, "PUT", path, "1", "If-None-Match", "*").header.Get("ETag")
	second := s.do(t, "PUT", path, "2", "If-Match", first).header.Get("ETag")
	if first == "" || second == "" {
		t.Fatal("the writes were not applied")
	}
	for _, c := range []struct {
		method, query, header, value, also string
		status                             int
		field                              string
	}{
		{"PUT", "", "If-Match", first, "", 412, ""},
		{"PUT", "", "If-None-Match", "*", "", 412, ""},
		{"DELETE", "", "If-Match", first, "", 412, ""},
		{"DELETE", "", "If-None-Match", "*", "", 412, ""},
		{"PUT", "", "If-Match", "*", "", 400, "If-Match"},
		{"PUT", "", "If-Match", strings.Trim(second, `"`), "", 400, "If-Match"},
		{"PUT", "", "If-Match", "W/" + second, "", 400, "If-Match"},
		{"PUT", "", "If-Match", first + ", " + second, "", 400, "If-Match"},
		{"PUT", "", "If-Match", `"0"`, "", 400, "If-Match"},
		{"PUT", "", "If-Match", "", "", 400, "If-Match"},
		{"PUT", "", "If-None-Match", first, "", 400, "If-None-Match"},
		{"PUT", "", "If-Match", second, "If-None-Match", 400, "If-None-Match"},
		{"PUT", "?if_mod_revision=1", "If-Match", second, "", 400, "If-Match"},
		{"DELETE", "?if_mod_revision=1", "If-Match", second, "", 400, "If-Match"},
		{"PUT", "", "If-Unmodified-Since", "Tue, 03 Nov 2026 10:00:00 GMT", "", 400, "If-Unmodified-Since"},
		{"PUT", "", "Content-Range", "bytes 0-1/2", "", 400, "Content-Range"},
		{"POST", "", "If-Match", second, "", 400, "If-Match"},
	} {
		at, body := path+c.query, ""
		switch c.method {
		case "PUT":
			body = "3"
		case "POST":
			at, body = "/v1/resources/config/transactions", `{"operations": [{"delete": {"key": "a"}}]}`
		}
		headers := []string{c.header, c.value}
		if c.also != "" {
			headers = append(headers, c.also, "*")
		}
		a := s.do(t, c.method, at, body, headers...)
		if a.status != c.status || c.field != "" && !slices.Equal(a.violations(t), []string{c.field}) {
			t.Errorf("%s%s with %s: %s: got %d %s, want %d for %s", c.method, c.query, c.header, c.value, a.status, a.body, c.status, c.field)
		}
	}
	if a := s.do(t, "DELETE", "/v1/watchers/nobody", "", "If-Match", second); a.status != http.StatusBadRequest || !slices.Equal(a.violations(t), []string{"If-Match"}) {
		t.Errorf("end of a watch: got %d %s", a.status, a.body)
	}
	if got := s.get(t, "a"); got != "2" {
		t.Errorf("the value is %s", got)
	}
	if a := s.do(t, "DELETE", path, "", "If-Match", second); a.status != http.StatusOK {
		t.Errorf("delete: got %d %s", a.status, a.body)
	}
}

// Clients that ask again get the value only if it has changed.
func TestUnchangedValuesAreNotSentAgain(t *testing.T) {
	s := open(t, nil)
	s.put(t, "a", "1")
	const path = "/v1/resources/config/objects/a?raw"
	tag := s.do(t, "GET", path, "").header.Get("ETag")
	for header, want := range map[string]int{
		tag: 304, "W/" + tag: 304, `"1", ` + tag: 304, "*": 304, `"1"`: 200, "": 200, strings.Trim(tag, `"`): 200,
	} {
		a := s.do(t, "GET", path, "", "If-None-Match", header)
		if a.status != want || a.header.Get("ETag") != tag || (len(a.body) > 0) != (want == 200) {
			t.Errorf("If-None-Match: %s: got %d %v %q, want %d", header, a.status, a.header, a.body, want)
		}
	}
	head := s.do(t, "HEAD", path, "")
	if head.status != http.StatusOK || head.header.Get("ETag") != tag || head.header.Get("Content-Length") != "1" || len(head.body) > 0 {
		t.Errorf("HEAD: got %d %v %q", head.status, head.header, head.body)
	}
}

// The error for a body of the wrong kind explains how to send the right one.
func TestErrorsAboutBodiesSayWhatToDo(t *testing.T) {
	s := open(t, nil)
	const object, transactions = "/v1/resources/config/objects/a", "/v1/resources/config/transactions"
	for _, c := range []struct {
		method, path, contentType, body string
		status                          int
		want                            string
	}{
		{"PUT", object, "application/x-www-form-urlencoded", `{"rps": 100}`, 415, "-H 'Content-Type: application/json'"}, // curl -d
		{"PUT", object, "multipart/form-data; boundary=x", "--x--", 415, "say what the value is"},                        // curl -F
		{"PUT", object, "", "", 400, "send its Content-Type"},
		{"PUT", object + "?text=1", "text/plain", "1", 400, "the body is the value"},
		{"POST", transactions, "application/x-www-form-urlencoded", `{"operations": []}`, 415, "Content-Type: application/json"},
		{"POST", transactions, "application/json", `{"rps": 100}`, 400, "to store a document as it is, PUT it"},
		{"POST", object, "application/json", `{"rps": 100}`, 405, "only GET, HEAD, PUT, DELETE"},
	} {
		a := s.do(t, c.method, c.path, c.body, "Content-Type", c.contentType)
		if a.status != c.status || !strings.Contains(string(a.body), c.want) {
			t.Errorf("%s %s as %q: got %d %s, want %d and %q", c.method, c.path, c.contentType, a.status, a.body, c.status, c.want)
		}
	}
	if a := s.do(t, "GET", object, ""); a.status != http.StatusNotFound {
		t.Errorf("an object was stored: %s", a.body)
	}
}

// A browser that shows a value runs nothing of it, and a page cannot make it a part of itself.
func TestRawValuesAreHarmless(t *testing.T) {
	s := open(t, nil)
	const path = "/v1/resources/config/objects/a"
	s.do(t, "PUT", path, "<script>alert(1)</script>", "Content-Type", "text/html")
	a := s.do(t, "GET", path+"?raw", "", "Sec-Fetch-Site", "same-origin", "Sec-Fetch-Dest", "document")
	if policy := a.header.Get("Content-Security-Policy"); a.status != http.StatusOK || !strings.Contains(policy, "sandbox;") ||
		!strings.HasPrefix(policy, "default-src 'none'") || a.header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("got %d %v", a.status, a.header)
	}
	for _, part := range []string{"script", "style", "worker", "serviceworker", "iframe", "image"} {
		if a := s.do(t, "GET", path+"?raw", "", "Sec-Fetch-Site", "same-origin", "Sec-Fetch-Dest", part); a.status != http.StatusBadRequest {
			t.Errorf("as %s: got %d", part, a.status)
		}
	}
}
