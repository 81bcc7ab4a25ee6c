package browser

import (
	"fmt"
	"strings"
	"testing"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/config"
)

// follow starts the tail of a resource, and returns when it covers every later write.
func (p *tab) follow(resource string) {
	p.t.Helper()
	p.awaitText("#freshness", "Live")
	p.click("article[aria-label=" + resource + "] footer button:last-child")
	p.awaitText("#tail-state", "Following "+resource)
}

// tailKeys selects the keys in the tail, newest first.
const tailKeys = "#tail-events .key"

func TestTailShowsWritesAsTheyHappen(t *testing.T) {
	s := start(t)
	s.fill(t)
	p := open(t, s.url, desktop)
	p.follow("config")
	p.awaitText("#tail-state", "Following config")
	p.awaitTexts(tailKeys) // existing objects are not shown

	s.put(t, "config", "shop/new", "first", "env", "prod")
	s.put(t, "config", "shop/new", strings.Repeat("long ", 100))
	s.delete(t, "config", "shop/new")
	s.write(t, "config", &fanoutv1.PutOperation{Key: "shop/binary", Value: &fanoutv1.PutOperation_Data{Data: []byte{0, 1, 2, 255}}})
	p.awaitTexts("#tail-events .type", "added", "deleted", "modified", "added")
	p.awaitTexts(tailKeys, "shop/binary", "shop/new", "shop/new", "shop/new")
	values := p.texts("#tail-events .value")
	if values[0] != "binary, 4 B" || values[3] != "first" || !strings.HasSuffix(values[2], "…") || len(values[2]) > 300 {
		t.Errorf("got values %q", values)
	}

	// A click shows the whole value.
	p.click("#tail-events li:nth-child(4) summary")
	p.awaitTexts("#tail-events li:nth-child(4) pre", "first")
	if got := eval[string](p, `document.querySelector("#tail-events li:nth-child(4) .jump a").hash`); got != "#/config/shop/new" {
		t.Errorf("the event leads to %s", got)
	}
	p.awaitText("#tail-events li:nth-child(4) dl", "env=prod")
	p.click("#tail-events li:nth-child(3) summary")
	p.awaitTexts("#tail-events li:nth-child(3) pre", strings.TrimSpace(strings.Repeat("long ", 100)))

	// Select another resource, a prefix, and a label and a field.
	p.choose("#tail-resource", "flags")
	p.awaitText("#tail-state", "Following flags")
	p.awaitTexts(tailKeys)
	p.write("#tail-fields", "owner=cart")
	p.awaitText("#tail-state", "Following flags")
	s.put(t, "flags", "a", `{"owner": "stock"}`)
	s.put(t, "flags", "b", `{"owner": "cart"}`)
	p.awaitTexts(tailKeys, "b")
	p.click("#tail-stop")
	p.awaitTexts("#tail-state", "Stopped")
}

// TestUserTextIsNotMarkup checks that the page shows keys, values and errors as plain text.
func TestUserTextIsNotMarkup(t *testing.T) {
	s := start(t)
	attacks := []string{
		`<script>window.attacked = 1</script>`,
		`<img src=x onerror="window.attacked = 2">`,
		`"><svg onload=window.attacked=3>`,
		`{"a": "</pre><iframe srcdoc='<script>parent.attacked = 4</script>'>"}`,
	}
	label := "<b onclick>!"
	p := open(t, s.url, desktop)
	p.follow("config")
	for i, a := range attacks {
		s.write(t, "config", &fanoutv1.PutOperation{
			Key: fmt.Sprint(i, " ", strings.ReplaceAll(a, "/", "|")), Value: &fanoutv1.PutOperation_Text{Text: a},
			ContentType: "text/html", Labels: map[string]string{"x": "y"},
		})
	}
	s.watch(t, attacks[1], &fanoutv1.WatchRequest{Resource: "config", Scope: below(attacks[0]), FieldSelector: "name!=" + label})
	p.await(`document.querySelectorAll("#tail-events li").length === 4`)
	for i, a := range attacks {
		row := fmt.Sprintf("#tail-events li:nth-child(%d) ", 4-i)
		p.click(row + "summary")
		p.awaitTexts(row+"pre", a)
		if got, want := p.texts(row + ".key")[0], fmt.Sprint(i, " ", strings.ReplaceAll(a, "/", "|")); got != want {
			t.Errorf("got key %q, want %q", got, want)
		}
		if got := p.texts(row + ".value")[0]; got != a {
			t.Errorf("got value %q, want %q", got, a)
		}
	}
	p.awaitText("#watchers-rows", attacks[0])
	p.awaitText("#watchers-rows", label)
	p.awaitText("#watchers-rows", `<img src=x onerror=`)
	p.write("#tail-fields", "<img onerror>=1") // the server's error quotes it
	p.awaitText("#tail-error", "<img onerror>")
	if n := eval[int](p, `document.querySelectorAll("main script, main iframe, main img, main svg:not(.spark), main b").length`); n != 0 {
		t.Errorf("got %d elements from user text, want 0", n)
	}
	if eval[bool](p, `"attacked" in window`) {
		t.Error("a script in user text has run")
	}
}

// TestTailIsBoundedAndCanPause checks that a reader can pause the tail, and that it keeps a
// bounded number of events.
func TestTailIsBoundedAndCanPause(t *testing.T) {
	s := start(t)
	p := open(t, s.url, desktop)
	p.follow("config")
	s.put(t, "config", "first", "1")
	p.awaitTexts(tailKeys, "first")
	p.click("#tail-pause")
	p.awaitTexts("#tail-pause", "Resume")
	const writes = 230
	for i := range writes {
		s.put(t, "config", fmt.Sprint("k", i), "1")
	}
	p.awaitTexts("#tail-pause", "Resume (230 new)")
	p.awaitTexts(tailKeys, "first")
	p.click("#tail-pause")
	p.awaitTexts("#tail-pause", "Pause")
	p.await(`document.querySelectorAll("#tail-events li").length === 200`)
	if keys := p.texts(tailKeys); keys[0] != "k229" || keys[199] != "k30" {
		t.Errorf("got events from %s to %s", keys[0], keys[199])
	}
	p.click("#tail-clear")
	p.awaitTexts(tailKeys)
	s.put(t, "config", "last", "1")
	p.awaitTexts(tailKeys, "last")
}

// TestTailShowsRefusals checks that the page shows the server's error, and does not repeat
// the request.
func TestTailShowsRefusals(t *testing.T) {
	s := start(t)
	p := open(t, s.url, desktop)
	p.follow("config")
	p.write("#tail-labels", "a in (")
	p.awaitText("#tail-error", "label_selector")
	p.awaitText("#tail-error", "INVALID_REQUEST")
	p.awaitTexts("#tail-state", "Ended")
	p.write("#tail-labels", "")
	p.awaitText("#tail-state", "Following config")
	p.await(`document.querySelector("#tail-error").hidden`)
}

// TestServerGoesAndComesBack checks that the page marks its content as stale while the
// server is down, and then recovers on its own. The tail misses nothing.
func TestServerGoesAndComesBack(t *testing.T) {
	s := start(t)
	s.fill(t)
	p := open(t, s.url, desktop)
	p.follow("config")
	s.put(t, "config", "before", "1")
	p.awaitTexts(tailKeys, "before")
	p.awaitFact("config", "Objects", "9")
	s.Stop()
	p.awaitText("#freshness", "Stale: as it was at ")
	p.await(`document.querySelectorAll(".stale").length === 3`) // and looks stale
	p.awaitText("#resources-error", "cannot be reached")
	p.awaitText("#watchers-error", "cannot be reached")
	p.awaitText("#tail-error", "cannot be reached")
	p.awaitText("#tail-state", "Interrupted")
	p.awaitFact("config", "Objects", "9") // the last known value

	s.Start(t)
	s.put(t, "config", "after", "2") // perhaps before the page is back
	p.awaitText("#freshness", "Live")
	p.await(`document.querySelectorAll(".stale").length === 0`)
	p.awaitTexts(tailKeys, "after", "before")
	p.awaitText("#tail-state", "Following config")
	p.awaitFact("config", "Objects", "10")
	p.await(`["resources", "watchers", "tail"].every((n) => document.getElementById(n + "-error").hidden)`)
	if gaps := p.texts("#tail-events .gap"); len(gaps) > 0 {
		t.Errorf("got gaps %q", gaps)
	}
}

// TestTailReportsGaps checks that the tail says that events are missing if the server cannot
// replay them.
func TestTailReportsGaps(t *testing.T) {
	s := start(t)
	p := open(t, s.url, desktop)
	p.follow("config")
	s.put(t, "config", "before", "1")
	p.awaitTexts(tailKeys, "before")
	s.Stop()
	p.awaitText("#tail-state", "Interrupted")
	other := start(t, func(c *config.Config) { c.Listen, c.AdminListen = s.cfg.Listen, s.cfg.AdminListen }) // with data of its own
	p.awaitText("#tail-events .gap", "EPOCH_CHANGED")
	p.awaitText("#tail-state", "Following config")
	other.put(t, "config", "after", "1")
	p.awaitTexts(tailKeys, "after", "before")
}
