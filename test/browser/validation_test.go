package browser

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/fanoutd/fanoutd/internal/config"
	"github.com/fanoutd/fanoutd/test/certs"
)

// checks gives the resource config validation rules.
func checks(t *testing.T) func(*config.Config) {
	file := filepath.Join(t.TempDir(), "rules.yaml")
	certs.Write(t, file, []byte(`
checks:
  - keys: ["flags/**"]
    schema: {properties: {percent: {maximum: 100}, on: {type: boolean}}, required: [owner]}
    rules:
      - rule: "oldSelf == null || self.version > oldSelf.version"
        message: "the version must increase"
`))
	return func(c *config.Config) { c.Resources[0].ValidationFile = file }
}

// typeInto types a text into a field, key by key, in place of what is there.
func (p *tab) typeInto(selector, text string) {
	p.t.Helper()
	eval[bool](p, `document.querySelector(`+quote(selector)+`).select(), true`)
	p.do("type into "+selector, chromedp.SendKeys(chromedp.CSS(selector), text, chromedp.NodeVisible))
}

const faults = "#edit-faults li"

// TestValidationWhileTyping checks that the form shows the faults of the present text while one types it, with their
// lines, that it asks only now and then, and that nothing is written.
func TestValidationWhileTyping(t *testing.T) {
	s := start(t, checks(t), remembers)
	s.because(t, "flags/cart", `{"owner": "cart", "version": 1}`, "")
	p := open(t, s.url+"#/config/flags/cart", desktop)
	p.awaitText("#freshness", "Live")
	p.awaitText(`[aria-label="config"]`, s.resource(t, "config").GetValidation().GetHash())
	p.click("#object-edit")
	// requests counts the checks, and how many were under way at once.
	eval[bool](p, `window.sent = window.now = window.most = 0, window.bodies = [], window.real = window.fetch, window.fetch = async (url, init) => {
		if (!String(url).includes("/transactions")) return window.real(url, init);
		window.sent++, window.most = Math.max(window.most, ++window.now), window.bodies.push(init.body);
		try { return await window.real(url, init); } finally { window.now--; }
	}, true`)
	p.typeInto("#edit-value", "{\n\"percent\": 5000,\n\"on\": \"<b>yes</b>\",\n\"version\": 2}")
	p.awaitTexts(faults,
		"line 1 /owner is required, but missing",
		"line 2 /percent must be at most 100, is 5000",
		"line 3 /on must be boolean, is \"<b>yes</b>\"")
	p.awaitText("#edit-check", "3 faults")
	p.await(`document.querySelector("#edit-value").getAttribute("aria-invalid") === "true"`)
	p.fits()
	p.as(desktop)
	p.click(faults + ":nth-child(2) button")
	if got := eval[string](p, `((f) => f.value.slice(f.selectionStart, f.selectionEnd))(document.activeElement)`); got != "5000" {
		t.Errorf("the button selects %q", got)
	}
	if n := eval[int](p, `window.sent`); n == 0 || n > 20 {
		t.Errorf("got %d requests for 60 keys", n)
	}
	if n := eval[int](p, `window.most`); n != 1 {
		t.Errorf("got %d requests at once, want 1", n)
	}
	if !eval[bool](p, `window.bodies.every((b) => JSON.parse(b).validateOnly)`) {
		t.Error("a request would write")
	}

	// A rule sees the present object.
	p.typeInto("#edit-value", `{"owner": "cart", "version": 1}`)
	p.awaitText(faults, "the version must increase")
	p.typeInto("#edit-value", `{"owner": `)
	p.awaitText(faults, "is not JSON")
	p.typeInto("#edit-value", `{"owner": "cart", "version": 2}`)
	p.awaitTexts("#edit-check", "The server accepts this value.")
	p.await(`document.querySelector("#edit-faults").hidden && !document.querySelector("#edit-value").hasAttribute("aria-invalid")`)
	if got := s.object(t, "config", "flags/cart"); got.GetVersion() != 1 {
		t.Errorf("typing has written %v", got)
	}

	// A write that is refused returns to the form.
	p.fill("#edit-value", `{"owner": "cart", "version": 0}`)
	p.click("#edit-submit")
	p.click("#edit-submit")
	p.awaitText("#edit-error", "VALUE_REFUSED")
	p.awaitText(faults, "the version must increase")
	p.edit(`{"owner": "cart", "version": 3}`)
	p.click("#edit-submit")
	p.awaitText("#object-value", `"version": 3`)

	// The rules hold for a rollback, too.
	p.click("#history > summary")
	p.awaitTexts(entries, "put", "put")
	p.click("#history-list > li:nth-child(2) summary")
	p.click("#history-list > li:nth-child(2) .rollback")
	p.await(`!document.querySelector("#rollback-confirm").disabled`)
	p.click("#rollback-confirm")
	p.awaitText("#rollback-error", "VALUE_REFUSED")
	p.click("#rollback-cancel")
}

// enter sets the text of a field at once, as if it were pasted.
func (p *tab) enter(selector, text string) {
	p.t.Helper()
	eval[bool](p, `((f) => { f.value = `+quote(text)+`; return f.dispatchEvent(new Event("input", { bubbles: true })); })(document.querySelector(`+quote(selector)+`))`)
}

// TestDeniedChecksAreNotRepeated checks that typing does not send one denied request after the other: each is in the audit log.
func TestDeniedChecksAreNotRepeated(t *testing.T) {
	s, tokens := guarded(t, `
- {subjects: [writer], verbs: [get, list, put], resources: [config], prefixes: [shop]}
`, "writer")
	s.because(t, "shop/a", "1", "")
	p := open(t, s.url+"#/config/shop/", desktop)
	p.allowComplaints("403")
	p.await(`!document.getElementById("token").hidden || (document.querySelector("#token-open").click(), true)`)
	p.write("#token-text", tokens["writer"])
	p.click("#browse-new")
	eval[bool](p, `window.sent = window.checks = 0, window.real = window.fetch, window.fetch = (url, init) => {
		if (String(url).includes("/transactions")) window.sent++;
		return window.real(url, init);
	}, window.later = window.setTimeout, window.setTimeout = (f, ms) => window.later(() => { f(); if (ms === 400) window.checks++; }, ms), true`)
	p.enter("#edit-key", "other")
	p.await("window.checks === 1 && window.sent === 1")
	for i := range 3 {
		p.enter("#edit-value", fmt.Sprint(i))
		p.await(fmt.Sprintf("window.checks === %d", i+2))
	}
	p.enter("#edit-key", "shop/b")
	p.awaitTexts("#edit-check", "The server accepts this value.")
	if n := eval[int](p, "window.sent"); n != 2 {
		t.Errorf("got %d checks, want one that is denied, and one for the other key", n)
	}
}

// TestFaultsMarkTheirField checks that a fault marks the field that has it.
func TestFaultsMarkTheirField(t *testing.T) {
	s := start(t, checks(t))
	s.put(t, "config", "flags/cart", `{"owner": "cart", "version": 1}`)
	p := open(t, s.url+"#/config/flags/cart", desktop)
	p.click("#object-edit")
	p.enter("#edit-labels", "no space=1")
	p.awaitText(faults, "labels")
	p.await(`document.querySelector("#edit-labels").ariaInvalid === "true" && !document.querySelector("#edit-value").ariaInvalid`)
	p.enter("#edit-labels", "")
	p.await(`!document.querySelector("#edit-labels").ariaInvalid`)
}
