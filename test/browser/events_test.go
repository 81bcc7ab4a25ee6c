package browser

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/fanoutd/fanoutd/internal/config"
	"github.com/fanoutd/fanoutd/test/loopback"
)

// example returns the program of docs/reference/http.md, which reports to the function record
// instead of the console.
func example(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/reference/http.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```js\n")
	program, _, ok := strings.Cut(rest, "```")
	if !ok {
		t.Fatal("the page has no program")
	}
	return strings.ReplaceAll(program, "console.log", "record")
}

// recorder defines what the program of the page uses, and keeps every message of a source.
const recorder = `
	var records = [], messages = [];
	function record(...values) { records.push(JSON.stringify(values)); }
	function follow(source) { source.addEventListener("message", (event) => messages.push(JSON.parse(event.data))); }
`

// receivedKeys are the keys of the events that the browser has received, separated by spaces.
const receivedKeys = `messages.flatMap((m) => m.events ?? []).map((e) => e.object.key).join(" ")`

// TestEventSourceResumes checks that a browser follows a watch, resumes when the server restarts and
// when its connection is cut, and misses and repeats nothing.
func TestEventSourceResumes(t *testing.T) {
	s := start(t)
	s.put(t, "config", "shop/a", "1")
	link := loopback.NewLink(t, s.cfg.AdminListen)
	p := open(t, "http://"+link.Address+"/", desktop)
	eval[bool](p, recorder+example(t)+`follow(source); true`)
	p.await(`messages.some((m) => m.kind === "KIND_SYNCED")`)
	s.put(t, "config", "shop/b", "two\nlines\r\n\r\nid: x")
	p.await(receivedKeys + ` === "shop/a shop/b"`)
	s.Stop()
	p.await(`source.readyState === EventSource.CONNECTING`)
	s.Start(t)
	s.put(t, "config", "shop/c", "3") // perhaps before the browser is back
	p.await(receivedKeys + ` === "shop/a shop/b shop/c"`)
	link.Cut()
	p.await(`source.readyState === EventSource.CONNECTING`)
	s.put(t, "config", "shop/d", "4")
	link.Heal()
	p.await(receivedKeys + ` === "shop/a shop/b shop/c shop/d"`)
	if got := eval[string](p, `messages.map((m) => m.catchUp ?? "").join("")`); got != "CATCH_UP_RESETCATCH_UP_REPLAYCATCH_UP_REPLAY" {
		t.Errorf("the catch-ups are %s", got)
	}
	if got := eval[string](p, `messages.flatMap((m) => m.events ?? [])[1].object.text`); got != "two\nlines\r\n\r\nid: x" {
		t.Errorf("got the value %q", got)
	}
	if got := eval[[]string](p, `records`); !strings.Contains(strings.Join(got, "\n"), `"KIND_LIVE",[{"object":{"key":"shop/b"`) || !strings.Contains(strings.Join(got, "\n"), `"ended:"`) {
		t.Errorf("the program reports %q", got)
	}
	// A browser that comes back with the id of another history starts over.
	id := eval[string](p, `source.close(), messages.length = 0, "other:1"`)
	eval[bool](p, `follow(new EventSource("/v1/resources/config/watch?prefix=shop&lastEventId=`+id+`")), true`)
	p.await(receivedKeys + ` === "shop/a shop/b shop/c shop/d"`)
	if got := eval[string](p, `messages[0].catchUp`); got != "CATCH_UP_RESET" {
		t.Errorf("got the catch-up %s", got)
	}
	// An error that does not pass closes the source.
	eval[bool](p, `var refused = new EventSource("/v1/resources/nothing/watch"); true`)
	p.await(`refused.readyState === EventSource.CLOSED`)
}

// pageOf serves an empty page from an origin of its own.
func pageOf(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte("<!doctype html><link rel=icon href=data:,><p>page")) // never fails here
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// TestOnlyListedOriginsFollow checks that pages of a listed origin can use the API, and that
// pages of another origin cannot.
func TestOnlyListedOriginsFollow(t *testing.T) {
	listed, other := pageOf(t), pageOf(t)
	s := start(t, func(c *config.Config) { c.HTTPOrigins = []string{listed} })
	s.put(t, "config", "a", "1")
	program := `var source = new EventSource("` + s.url + `v1/resources/config/watch", {withCredentials: true}); follow(source); true`
	write := func(value string) string {
		return `fetch("` + s.url + `v1/resources/config/objects/a", {method: "PUT", body: "` + value + `", headers: {"Content-Type": "text/plain", "If-Match": '"4"'}})
			.then((r) => r.status + " " + r.headers.get("ETag"), () => "refused")`
	}

	p := open(t, other, desktop)
	eval[bool](p, recorder+program)
	p.await(`source.readyState === EventSource.CLOSED`)
	if got := eval[string](p, write("2")); got != "refused" {
		t.Errorf("a write of another origin: got %s", got)
	}
	if n := eval[int](p, `messages.length`); n != 0 {
		t.Errorf("another origin has received %d messages", n)
	}
	p.allowComplaints("CORS")

	p = open(t, listed, desktop)
	eval[bool](p, recorder+program)
	p.await(receivedKeys + ` === "a"`)
	if got := eval[string](p, write("3")); !strings.HasPrefix(got, `200 "`) {
		t.Errorf("a write of the listed origin: got %s", got)
	}
	p.await(receivedKeys + ` === "a a"`)
}
