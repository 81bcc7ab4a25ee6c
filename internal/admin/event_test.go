package admin_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	spb "google.golang.org/genproto/googleapis/rpc/status"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/config"
	"github.com/fanoutd/fanoutd/test/poll"
)

// eventTail is a stream of server-sent events.
type eventTail struct {
	t     *testing.T
	lines *bufio.Scanner
	retry time.Duration // last one received
	leave func()
}

// event is a server-sent event.
type event struct{ id, name, data string }

// events begins a stream of server-sent events.
func (s *site) events(t *testing.T, path string, more ...string) *eventTail {
	t.Helper()
	ctx, leave := context.WithCancel(poll.Context(t))
	t.Cleanup(leave)
	resp := s.send(t, ctx, "GET", path, "", append([]string{"Accept", "text/event-stream"}, more...)...)
	t.Cleanup(func() { resp.Body.Close() })
	if got := resp.Header.Get("Content-Type"); resp.StatusCode != http.StatusOK || got != "text/event-stream" {
		t.Fatalf("the stream begins with %d, %s", resp.StatusCode, got)
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 4<<20)
	return &eventTail{t: t, lines: lines, leave: leave}
}

// read returns the next event; nil at the end of the stream.
func (e *eventTail) read() *event {
	e.t.Helper()
	var next event
	for e.lines.Scan() {
		name, value, _ := strings.Cut(e.lines.Text(), ": ")
		switch name {
		case "id":
			next.id = value
		case "event":
			next.name = value
		case "data":
			next.data += value
		case "retry":
			ms, err := strconv.Atoi(value)
			if err != nil {
				e.t.Fatal(err)
			}
			e.retry = time.Duration(ms) * time.Millisecond
		case "":
			return &next
		default:
			e.t.Fatalf("the stream has the line %q", e.lines.Text())
		}
	}
	if err := e.lines.Err(); err != nil {
		e.t.Fatal(err)
	}
	return nil
}

// next returns the next message of a watch, which must be of the given kind, and the id of its
// event.
func (e *eventTail) next(kind fanoutv1.WatchResponse_Kind) (*fanoutv1.WatchResponse, string) {
	e.t.Helper()
	got := e.read()
	if got == nil {
		e.t.Fatalf("the stream ends, want %v", kind)
	}
	m := parse[fanoutv1.WatchResponse](e.t, []byte(got.data))
	if m.GetKind() != kind || got.name != "" {
		e.t.Fatalf("want a message of kind %v, got %q %s", kind, got.name, got.data)
	}
	if want := fmt.Sprintf("%s:%d", m.GetPosition().GetEpoch(), m.GetPosition().GetRevision()); got.id != want {
		e.t.Fatalf("the id of %s is %s", got.data, got.id)
	}
	return m, got.id
}

const watchPath = "/v1/resources/config/watch"

// Server-sent events have the messages of lines of JSON, and their positions as ids. A watch
// resumes after the last of them.
func TestWatchAsEventsResumes(t *testing.T) {
	s := open(t, nil)
	s.put(t, "team/a", "1")
	w := s.events(t, watchPath+"?prefix=team")
	m, begun := w.next(fanoutv1.WatchResponse_KIND_CATCH_UP_BEGIN)
	if m.GetCatchUp() != fanoutv1.WatchResponse_CATCH_UP_RESET || w.retry < time.Second || w.retry >= 3*time.Second {
		t.Errorf("the watch begins with %v, retry %v", m, w.retry)
	}
	w.next(fanoutv1.WatchResponse_KIND_CATCH_UP_PART)
	_, synced := w.next(fanoutv1.WatchResponse_KIND_SYNCED)
	s.put(t, "team/a", "2\n\nevent: x\r\rdata: y\u2028")
	if m, _ := w.next(fanoutv1.WatchResponse_KIND_LIVE); m.GetEvents()[0].GetObject().GetText() != "2\n\nevent: x\r\rdata: y\u2028" {
		t.Errorf("got %v", m)
	}
	w.leave()

	// However the URL begins, the last event counts.
	id := url.QueryEscape(synced)
	for _, c := range []struct {
		query, header string
		want          fanoutv1.WatchResponse_CatchUp
	}{
		{"", synced, fanoutv1.WatchResponse_CATCH_UP_REPLAY},
		{"&lastEventId=" + id, "", fanoutv1.WatchResponse_CATCH_UP_REPLAY},
		{"&last_event_id=" + id, "", fanoutv1.WatchResponse_CATCH_UP_REPLAY},
		{"&lastEventId=rubbish", synced, fanoutv1.WatchResponse_CATCH_UP_REPLAY},
		{"&from_now=true&min_revision=1", synced, fanoutv1.WatchResponse_CATCH_UP_REPLAY},
		{"&epoch=x&revision=1", synced, fanoutv1.WatchResponse_CATCH_UP_REPLAY},
		{"&lastEventId=", "", fanoutv1.WatchResponse_CATCH_UP_RESET},
		// In the middle of a RESET there is no position.
		{"&min_revision=1", begun, fanoutv1.WatchResponse_CATCH_UP_RESET},
		{"&from_now=true", begun, fanoutv1.WatchResponse_CATCH_UP_RESET},
		{"", "other:1", fanoutv1.WatchResponse_CATCH_UP_RESET},
	} {
		w := s.events(t, watchPath+"?prefix=team"+c.query, "Last-Event-ID", c.header)
		if m, _ := w.next(fanoutv1.WatchResponse_KIND_CATCH_UP_BEGIN); m.GetCatchUp() != c.want {
			t.Errorf("%s with %q: the watch begins with %v", c.query, c.header, m)
		}
		w.leave()
	}
	for _, last := range []string{"rubbish", synced + "x", ":1", "x:-1", "x:", "x:1:1", "%zz:1", "x:99999999999999999999"} {
		for field, a := range map[string]answer{
			"Last-Event-ID": s.do(t, "GET", watchPath+"?time_limit=1s", "", "Last-Event-ID", last),
			"lastEventId":   s.do(t, "GET", watchPath+"?time_limit=1s&lastEventId="+url.QueryEscape(last), ""),
		} {
			if a.status != http.StatusBadRequest || !slices.Equal(a.violations(t), []string{field}) {
				t.Errorf("%s: %s: got %d %s", field, last, a.status, a.body)
			}
		}
	}
}

// Only clients that ask for server-sent events get them, and only where there is a stream.
func TestEventsAreNegotiated(t *testing.T) {
	s := open(t, nil)
	s.put(t, "a", "1")
	const start = `{"start": {"watch_id": 1, "request": {"resource": "config"}}}`
	for _, c := range []struct{ path, accept, want string }{
		{"/v1/subscribe", "text/event-stream", "text/event-stream"},
		{watchPath, "text/event-stream", "text/event-stream"},
		{watchPath, "Text/Event-Stream; charset=utf-8", "text/event-stream"},
		{watchPath, "application/json, text/event-stream;q=0.5, */*;q=0.1", "text/event-stream"},
		{watchPath, "text/event-stream;q=0", "application/x-ndjson"},
		{watchPath, "*/*", "application/x-ndjson"},
		{watchPath, "text/event-stream-x, ;;", "application/x-ndjson"},
		{"/v1/resources/config/applied?revision=1", "text/event-stream", "text/event-stream"},
		{"/v1/resources/config/objects/a", "text/event-stream", "application/json"},
		{"/v1/resources", "text/event-stream", "application/json"},
	} {
		ctx, leave := context.WithCancel(poll.Context(t))
		method, body := "GET", ""
		if c.path == "/v1/subscribe" {
			method, body = "POST", start
		}
		resp := s.send(t, ctx, method, c.path, body, "Accept", c.accept)
		if got := resp.Header.Get("Content-Type"); resp.StatusCode != http.StatusOK || got != c.want {
			t.Errorf("%s with %q: got %d, %s", c.path, c.accept, resp.StatusCode, got)
		}
		resp.Body.Close()
		leave()
	}
	if a := s.do(t, "PUT", "/v1/resources/config/objects/a", "x", "Content-Type", "text/event-stream"); a.header.Get("Content-Type") != "application/json" {
		t.Errorf("a write answers %s", a.header.Get("Content-Type"))
	}
}

// EventSource gives up unless a response is 200. So errors that pass come as events, and the
// others have their status.
func TestErrorsOfEvents(t *testing.T) {
	s := open(t, func(c *config.Config) { c.MaxWatchers = 1 })
	for path, want := range map[string]int{
		"/v1/resources/x/watch":                            404,
		watchPath + "?bookmark_interval=1ms":               400,
		watchPath + "?prefx=a":                             400,
		watchPath + "?epoch=x&revision=1&every_event=true": 410,
	} {
		a := s.do(t, "GET", path, "", "Accept", "text/event-stream")
		if a.status != want {
			t.Errorf("%s: got %d %s", path, a.status, a.body)
		}
	}
	s.events(t, watchPath+"?from_now=true").next(fanoutv1.WatchResponse_KIND_BOOKMARK)
	w := s.events(t, watchPath)
	got := w.read()
	if got == nil || got.name != "status" || got.id != "" || w.retry < time.Second {
		t.Fatalf("got %v, retry %v", got, w.retry)
	}
	if reason := reasonOf(parse[spb.Status](t, []byte(got.data))); reason != "LIMIT_REACHED" {
		t.Errorf("got %s", got.data)
	}
	if more := w.read(); more != nil {
		t.Errorf("after the error: got %v", more)
	}
	if a := s.do(t, "GET", watchPath, ""); a.status != http.StatusServiceUnavailable {
		t.Errorf("lines of JSON: got %d %s", a.status, a.body)
	}
}

// A server that stops sends the delay before the next attempt, and the reason.
func TestStopOfEvents(t *testing.T) {
	s := open(t, nil)
	w := s.events(t, watchPath)
	w.next(fanoutv1.WatchResponse_KIND_CATCH_UP_BEGIN)
	_, synced := w.next(fanoutv1.WatchResponse_KIND_SYNCED)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		s.stop()
	}()
	m, last := w.next(fanoutv1.WatchResponse_KIND_DRAINING)
	if atOnce := w.retry == 250*time.Millisecond; last != synced || m.GetResumeAtOnce() != atOnce {
		t.Errorf("got %v with id %s, want %s, retry %v", m, last, synced, w.retry)
	}
	got := w.read()
	if got == nil || got.name != "status" || got.id != "" || reasonOf(parse[spb.Status](t, []byte(got.data))) != "DRAINING" {
		t.Errorf("got %v", got)
	}
	<-stopped
}
