package admin_test

import (
	"compress/gzip"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// Each path that answers with a stream forbids proxies to hold messages back, as JSON lines and as
// server-sent events.
func TestStreamsAreNotHeldBackByProxies(t *testing.T) {
	s := open(t, nil)
	s.put(t, "a", "1")
	requests := map[string]struct{ query, body string }{
		"/v1/resources/{resource}/watch":   {},
		"/v1/resources/{resource}/applied": {query: "?revision=1"},
		"/v1/subscribe":                    {body: `{"start": {"watchId": 1, "request": {"resource": "config"}}}`},
	}
	found := 0
	for path, operations := range s.operations(t) {
		for verb, operation := range operations {
			if !streams(t, operation.OperationID) {
				continue
			}
			found++
			request, ok := requests[path]
			if !ok {
				t.Errorf("no test of %s %s, which is a stream", verb, path)
				continue
			}
			for _, accept := range []string{"", "text/event-stream", "*/*"} {
				target := strings.Replace(path, "{resource}", "config", 1) + request.query
				resp := s.send(t, t.Context(), strings.ToUpper(verb), target, request.body, "Accept", accept)
				defer resp.Body.Close()
				if resp.StatusCode != http.StatusOK {
					t.Errorf("%s as %q: got %s", path, accept, resp.Status)
				}
				if cache, nginx := resp.Header.Values("Cache-Control"), resp.Header.Get("X-Accel-Buffering"); len(cache) != 1 || cache[0] != "no-store, no-transform" || nginx != "no" {
					t.Errorf("%s as %q: got Cache-Control %q and X-Accel-Buffering %q", path, accept, cache, nginx)
				}
			}
		}
	}
	if found != len(requests) {
		t.Errorf("found %d streams, want %d", found, len(requests))
	}
}

type operation struct{ OperationID string }

// operations returns the operations of each path and method.
func (s *site) operations(t *testing.T) map[string]map[string]operation {
	t.Helper()
	var document struct {
		Paths map[string]map[string]operation
	}
	if err := json.Unmarshal(s.do(t, "GET", "/openapi.json", "").body, &document); err != nil {
		t.Fatal(err)
	}
	return document.Paths
}

// streams reports whether a method of the protocol answers with a stream. An operation that the
// protocol does not have does not.
func streams(t *testing.T, operationID string) bool {
	t.Helper()
	name := "fanout.v1." + strings.Replace(operationID, "_", ".", 1)
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(name))
	if err != nil {
		return false
	}
	return d.(protoreflect.MethodDescriptor).IsStreamingServer()
}

// A proxy that compresses what it may delivers each message at once.
func TestMessagesPassACompressingProxy(t *testing.T) {
	s := open(t, nil)
	s.put(t, "a", "1")
	proxy := httptest.NewServer(compressing(httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: s.address})))
	t.Cleanup(proxy.Close)
	through := *s
	through.address = proxy.Listener.Addr().String()
	w := through.events(t, watchPath, "Accept-Encoding", "gzip")
	w.read()
	lines := through.watch(t, "", "Accept-Encoding", "gzip")
	lines.line()
	if a := through.do(t, "GET", "/v1/resources", "", "Accept-Encoding", "gzip"); a.header.Get("Content-Encoding") != "gzip" {
		t.Errorf("the proxy did not compress another answer: got %v", a.header)
	}
}

// compressing compresses the responses of a handler, and holds their bytes back, unless they forbid it.
func compressing(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := &compressor{ResponseWriter: w}
		next.ServeHTTP(c, r)
		if c.gzip != nil {
			_ = c.gzip.Close() // fails if the client has gone
		}
	})
}

type compressor struct {
	http.ResponseWriter
	gzip *gzip.Writer // nil: the response is passed on as it is
}

func (c *compressor) WriteHeader(code int) {
	if !strings.Contains(c.Header().Get("Cache-Control"), "no-transform") {
		c.Header().Del("Content-Length")
		c.Header().Set("Content-Encoding", "gzip")
		c.gzip = gzip.NewWriter(c.ResponseWriter)
	}
	c.ResponseWriter.WriteHeader(code)
}

func (c *compressor) Write(b []byte) (int, error) {
	if c.gzip != nil {
		return c.gzip.Write(b)
	}
	return c.ResponseWriter.Write(b)
}

// FlushError flushes only what is not compressed, as common middleware does.
func (c *compressor) FlushError() error {
	if c.gzip != nil {
		return nil
	}
	return http.NewResponseController(c.ResponseWriter).Flush()
}
