package admin_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/app"
	"github.com/fanoutd/fanoutd/internal/config"
	"github.com/fanoutd/fanoutd/test/poll"
)

// site is a whole fanoutd in this process with an HTTP client.
type site struct {
	address string // of the HTTP listener
	client  http.Client
	stop    func()
}

// open starts a server with its own etcd.
func open(t *testing.T, change func(*config.Config)) *site {
	t.Helper()
	t.Parallel()
	cfg := config.Defaults()
	cfg.Listen, cfg.AdminListen = "127.0.0.1:0", "127.0.0.1:0"
	cfg.DataDir, cfg.EmbeddedEtcdUnsafe = filepath.Join(t.TempDir(), "data"), true
	if change != nil {
		change(&cfg)
	}
	a, err := app.Build(t.Context(), cfg, slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	s := &site{address: a.AdminAddr().String(), client: http.Client{Transport: &http.Transport{}}}
	s.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	t.Cleanup(func() {
		s.client.CloseIdleConnections()
		s.stop()
	})
	// Reads wait only a short time for the resources to load.
	for s.do(t, "GET", "/v1/resources/config/objects", "").status != http.StatusOK {
		if t.Context().Err() != nil {
			t.Fatal("the server does not begin to serve")
		}
	}
	return s
}

// answer is a response.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// do sends a request, with a body of JSON unless that is empty. more are pairs of a header
// name and its value; Host is set on the request itself.
func (s *site) do(t *testing.T, method, path, body string, more ...string) answer {
	t.Helper()
	resp := s.send(t, t.Context(), method, path, body, more...)
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, all}
}

func (s *site) send(t *testing.T, ctx context.Context, method, path, body string, more ...string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, "http://"+s.address+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(more); i += 2 {
		if more[i] == "Host" {
			req.Host = more[i+1]
		}
		req.Header.Set(more[i], more[i+1])
	}
	resp, err := s.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// call sends a request that must succeed, and returns its answer.
func call[T any, P interface {
	*T
	proto.Message
}](t *testing.T, s *site, method, path, body string,
) P {
	t.Helper()
	a := s.do(t, method, path, body)
	if a.status != http.StatusOK || a.header.Get("Content-Type") != "application/json" {
		t.Fatalf("%s %s: %d %s", method, path, a.status, a.body)
	}
	return parse[T, P](t, a.body)
}

func parse[T any, P interface {
	*T
	proto.Message
}](t *testing.T, text []byte,
) P {
	t.Helper()
	p := P(new(T))
	if err := protojson.Unmarshal(text, p); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return p
}

// put stores a text value.
func (s *site) put(t *testing.T, key, text string) int64 {
	t.Helper()
	a := s.do(t, "PUT", "/v1/resources/config/objects/"+key, text, "Content-Type", "text/plain")
	if a.status != http.StatusOK {
		t.Fatalf("put %s: %d %s", key, a.status, a.body)
	}
	return parse[fanoutv1.PutResponse](t, a.body).GetRevision()
}

// get returns the text value of a key.
func (s *site) get(t *testing.T, path string) string {
	t.Helper()
	return call[fanoutv1.GetResponse](t, s, "GET", "/v1/resources/config/objects/"+path, "").GetObject().GetText()
}

// watchers returns the watches.
func (s *site) watchers(t *testing.T) []*fanoutv1.WatcherStatus {
	t.Helper()
	return call[fanoutv1.ListWatchersResponse](t, s, "GET", "/v1/watchers", "").GetWatchers()
}

// reason returns the reason of an error.
func (a answer) reason(t *testing.T) string {
	t.Helper()
	return reasonOf(parse[spb.Status](t, a.body))
}

// violations returns the fields that an error names as invalid.
func (a answer) violations(t *testing.T) (fields []string) {
	t.Helper()
	for _, detail := range status.FromProto(parse[spb.Status](t, a.body)).Details() {
		if bad, ok := detail.(*errdetails.BadRequest); ok {
			for _, v := range bad.GetFieldViolations() {
				fields = append(fields, v.GetField())
			}
		}
	}
	return fields
}

func reasonOf(st *spb.Status) string {
	for _, detail := range status.FromProto(st).Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok && info.GetDomain() == "fanoutd.github.io" {
			return info.GetReason()
		}
	}
	return ""
}

// tail is a watch over HTTP, or a stream of watches.
type tail struct {
	t       *testing.T
	body    io.ReadCloser
	decoder *json.Decoder
	leave   func()
	header  http.Header
}

// watch begins a watch.
func (s *site) watch(t *testing.T, parameters string, more ...string) *tail {
	t.Helper()
	return s.follow(t, "GET", "/v1/resources/config/watch?"+parameters, "", more...)
}

// follow sends a request that is answered by a stream.
func (s *site) follow(t *testing.T, method, path, body string, more ...string) *tail {
	t.Helper()
	ctx, leave := context.WithCancel(poll.Context(t))
	t.Cleanup(leave)
	resp := s.send(t, ctx, method, path, body, more...)
	t.Cleanup(func() { resp.Body.Close() })
	if got := resp.Header.Get("Content-Type"); resp.StatusCode != http.StatusOK || got != "application/x-ndjson" {
		t.Fatalf("the stream begins with %d, %s", resp.StatusCode, got)
	}
	return &tail{t, resp.Body, json.NewDecoder(resp.Body), leave, resp.Header}
}

// line is a line of a watch.
type line struct {
	Result json.RawMessage
	Error  json.RawMessage
}

func (w *tail) line() line {
	w.t.Helper()
	var l line
	if err := w.decoder.Decode(&l); err != nil {
		w.t.Fatal(err)
	}
	// Each line is complete, and nothing follows it before the next event.
	rest, err := io.ReadAll(w.decoder.Buffered())
	if err != nil || len(bytes.TrimLeft(rest, "\n")) > 0 && rest[0] != '\n' {
		w.t.Fatalf("a line goes on with %q, %v", rest, err)
	}
	return l
}

// next returns the next message, which must be of the given kind.
func (w *tail) next(kind fanoutv1.WatchResponse_Kind) *fanoutv1.WatchResponse {
	w.t.Helper()
	l := w.line()
	m := parse[fanoutv1.WatchResponse](w.t, l.Result)
	if m.GetKind() != kind {
		w.t.Fatalf("want a message of kind %v, got %s", kind, l.Result)
	}
	return m
}

// skip returns the next message that is not of the kind.
func (w *tail) skip(kind fanoutv1.WatchResponse_Kind) *fanoutv1.WatchResponse {
	w.t.Helper()
	for {
		if m := parse[fanoutv1.WatchResponse](w.t, w.line().Result); m.GetKind() != kind {
			return m
		}
	}
}

// end returns the reason for the end of the watch.
func (w *tail) end() string {
	w.t.Helper()
	l := w.line()
	if l.Error == nil {
		w.t.Fatalf("it does not end, there is %s", l.Result)
	}
	if w.decoder.More() {
		w.t.Error("there is more behind the end")
	}
	return reasonOf(parse[spb.Status](w.t, l.Error))
}
