package admin_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/config"
	"github.com/fanoutd/fanoutd/test/poll"
)

// subscribe begins a stream of watches with these requests.
func (s *site) subscribe(t *testing.T, requests string, more ...string) *tail {
	t.Helper()
	return s.follow(t, "POST", "/v1/subscribe", requests, more...)
}

// entries returns the next response of a stream of watches, an entry in each line.
func (w *tail) entries() []string {
	w.t.Helper()
	l := w.line()
	var all []string
	for _, e := range parse[fanoutv1.SubscribeResponse](w.t, l.Result).GetEntries() {
		what := e.GetResponse().GetKind().String()
		switch {
		case e.GetRefused() != nil:
			what = "refused " + reasonOf(e.GetRefused())
		case e.GetEnded() != nil:
			what = "ended " + reasonOf(e.GetEnded())
		}
		for _, event := range e.GetResponse().GetEvents() {
			what += fmt.Sprintf(" %s=%s", event.GetObject().GetKey(), event.GetObject().GetText())
		}
		all = append(all, fmt.Sprint(e.GetWatchIds(), " ", strings.TrimPrefix(what, "KIND_")))
	}
	return all
}

// await reads entries until all of these have come, in any order, and nothing else.
func (w *tail) await(entries ...string) {
	w.t.Helper()
	missing := map[string]bool{}
	for _, e := range entries {
		missing[e] = true
	}
	for len(missing) > 0 {
		for _, e := range w.entries() {
			if !missing[e] {
				w.t.Fatalf("got %q, want %v", e, missing)
			}
			delete(missing, e)
		}
	}
}

// The requests are in the body, one after another, and each line of the answer is a response.
func TestSubscribeOverHTTP(t *testing.T) {
	s := open(t, nil)
	s.put(t, "shop/a", "1")
	w := s.subscribe(t, `
		{"subscriber": {"instance": "cart-7"}}
		{"start": {"watchId": "1", "request": {"resource": "config", "scope": {"prefix": "shop/"}}}}
		{"start": {"watch_id": 2, "request": {"resource": "config", "from_now": {}}}}
		{"start": {"watch_id": 3, "request": {"resource": "nothing"}}}
		{"start": {"watch_id": 4, "request": {"resource": "config", "after": {"epoch": "old", "revision": 1}, "every_event": true}}}`)
	w.await("[1] CATCH_UP_BEGIN", "[1] CATCH_UP_PART shop/a=1", "[1] SYNCED", "[2] BOOKMARK",
		"[3] refused UNKNOWN_RESOURCE", "[4] refused EPOCH_CHANGED")
	s.put(t, "shop/a", "2")
	if got := w.entries(); len(got) != 2 {
		t.Errorf("an event of two watches comes as %q", got)
	}
	all := s.watchers(t)
	if len(all) != 2 || all[0].GetSubscriber().GetInstance() != "cart-7" {
		t.Errorf("the watches are %v", all)
	}
	for _, watch := range all {
		if got := watch.GetRequest().GetBookmarkInterval().AsDuration().Seconds(); got != 30 {
			t.Errorf("the bookmark interval is %v s", got)
		}
	}
	w.leave()
	s.awaitWatchers(t, func(all []*fanoutv1.WatcherStatus) bool { return len(all) == 0 })
}

// A stream ends without an error when all of its watches have ended.
func TestSubscribeEndsWithItsWatches(t *testing.T) {
	s := open(t, nil)
	w := s.subscribe(t, `{"start": {"watch_id": 1, "request": {"resource": "nothing"}}}`)
	w.await("[1] refused UNKNOWN_RESOURCE")
	if rest, err := io.ReadAll(w.decoder.Buffered()); err != nil || strings.TrimSpace(string(rest)) != "" {
		t.Errorf("after the last watch: got %q, %v", rest, err)
	}
	if w.decoder.More() {
		t.Error("the stream goes on after its last watch")
	}
}

// Each fault of the body is an answer that names it, before any of its watches starts.
func TestSubscribeChecksItsBody(t *testing.T) {
	s := open(t, nil)
	const start = `{"start": {"watch_id": 1, "request": {"resource": "config"}}}`
	for body, want := range map[string]string{
		" ":                        "at least one request",
		start + "x":                "request 2",
		start + start + `{"start"`: "request 3",
		start + `{"sart": {}}`:     "request 2",
		start + `{}`:               "request 2",
		start + `{"start": {"request": {"resurce": "x"}}}`: "resurce",
		"[" + start + "]": "request 1",
	} {
		a := s.do(t, "POST", "/v1/subscribe", body)
		if fields := a.violations(t); a.status != http.StatusBadRequest || len(fields) != 1 || fields[0] != "body" || !strings.Contains(string(a.body), want) {
			t.Errorf("%s: got %d %s", body, a.status, a.body)
		}
	}
	if a := s.do(t, "POST", "/v1/subscribe?x=y", start); a.status != http.StatusBadRequest {
		t.Errorf("a parameter: got %d", a.status)
	}
	if a := s.do(t, "GET", "/v1/subscribe", ""); a.status != http.StatusMethodNotAllowed || a.header.Get("Allow") != "POST" {
		t.Errorf("GET: got %d, %q", a.status, a.header.Get("Allow"))
	}
	if n := len(s.watchers(t)); n != 0 {
		t.Errorf("%d watches have started", n)
	}
}

// The memory of the body is free when the requests have been sent, and not when the stream ends.
func TestSubscribeReturnsTheMemoryOfItsBody(t *testing.T) {
	s := open(t, func(cfg *config.Config) { cfg.MaxRequestMemory = 16 * config.MiB })
	padding := strings.Repeat(" ", 7<<20) // a client gets at most as much as is left
	for range 3 {
		w := s.subscribe(t, `{"start": {"watch_id": 1, "request": {"resource": "config", "from_now": {}}}}`+padding)
		w.await("[1] BOOKMARK")
		poll.Until(t, "the memory is free", func() bool {
			return strings.Contains(string(s.do(t, "GET", "/metrics", "").body), "\nfanoutd_request_bytes 0\n")
		})
	}
}
