package browser

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/config"
	"github.com/fanoutd/fanoutd/test/loopback"
)

// edit replaces the value in the form, and goes on to the review.
func (p *tab) edit(value string) {
	p.t.Helper()
	p.fill("#edit-value", value)
	p.click("#edit-submit")
	p.await(`!document.querySelector("#edit-review").hidden`)
}

// fill replaces the text of a field.
func (p *tab) fill(selector, text string) {
	p.t.Helper()
	p.await(`document.querySelector(` + quote(selector) + `).getClientRects().length > 0`)
	eval[bool](p, `document.querySelector(`+quote(selector)+`).value = `+quote(text)+`, true`)
}

// object returns an object from the API.
func (s *site) object(t *testing.T, resource, key string) *fanoutv1.Object {
	t.Helper()
	return ask[fanoutv1.GetResponse](t, s, "v1/resources/"+resource+"/objects/"+key).GetObject()
}

// Selectors of the lines that a diff removes and adds.
const (
	removed = "#edit-diff del"
	added   = "#edit-diff ins"
)

// TestEdit checks that a change is shown before it is written, and keeps what it does not change.
func TestEdit(t *testing.T) {
	s := start(t)
	s.fill(t)
	p := open(t, s.url+"#/config/shop/cart/limits-prod", desktop)
	p.awaitText("#freshness", "Live")
	p.click("#object-edit")
	p.edit(`{"rps": 150, "burst": 20}`)
	p.awaitTexts(removed, `-   "rps": 100,`)
	p.awaitTexts(added, `+   "rps": 150,`)
	if got := s.object(t, "config", "shop/cart/limits-prod"); got.GetVersion() != 1 {
		t.Errorf("the review has written: got version %d", got.GetVersion())
	}
	p.click("#edit-submit")
	p.awaitText("#object-value", `"rps": 150`)
	p.awaitObjectFact("Version", "2")
	got := s.object(t, "config", "shop/cart/limits-prod")
	if got.GetText() != `{"rps": 150, "burst": 20}` || got.GetContentType() != "application/json" || got.GetLabels()["env"] != "prod" || got.GetLabels()["team"] != "cart" {
		t.Errorf("got %v", got)
	}

	// A time to live stays.
	s.write(t, "config", &fanoutv1.PutOperation{Key: "lease", Value: &fanoutv1.PutOperation_Text{Text: "1"}, Ttl: durationpb.New(time.Hour)})
	eval[bool](p, `location.hash = "#/config/lease", true`)
	p.awaitTexts("#object-value", "1")
	p.click("#object-edit")
	p.edit("2")
	p.click("#edit-submit")
	p.awaitObjectFact("Version", "2")
	if !s.object(t, "config", "lease").GetHasTtl() {
		t.Error("a write of the page has removed the time to live")
	}
	eval[bool](p, `location.hash = "#/config/shop/cart/limits-prod", true`)
	p.awaitText("#object-value", `"rps": 150`)

	// Labels and the content type are part of the review.
	p.click("#object-edit")
	p.fill("#edit-labels", "env=test")
	p.fill("#edit-type", "text/plain")
	p.click("#edit-submit")
	p.awaitTexts(removed, "- content type: application/json", "- label: env=prod", "- label: team=cart", "- {", `-   "rps": 150,`, `-   "burst": 20`, "- }")
	p.click("#edit-again")
	p.fill("#edit-type", "application/json")
	p.click("#edit-submit")
	p.awaitTexts(removed, "- label: env=prod", "- label: team=cart")
	p.awaitTexts(added, "+ label: env=test")
	p.click("#edit-submit")
	p.awaitObjectFact("Labels", "env=test")

	// The codec of flags leaves neither to the writer.
	eval[bool](p, `location.hash = "#/flags/checkout/cart", true`)
	p.awaitText("#object-value", "owner")
	p.click("#object-edit")
	p.await(`document.querySelector("#edit-type").getClientRects().length === 0`)
	// The page sends no broken JSON, and stays in the form.
	before := s.object(t, "flags", "checkout/cart").GetModRevision()
	p.fill("#edit-value", `{"owner": }`)
	for range 2 {
		p.click("#edit-submit")
		p.awaitText("#edit-error", "not JSON")
		p.await(`document.querySelector("#edit-review").hidden`)
	}
	if after := s.object(t, "flags", "checkout/cart").GetModRevision(); after != before {
		t.Errorf("the object is at revision %d, want %d", after, before)
	}
	p.edit(`{"owner": "nobody"}`)
	p.click("#edit-submit")
	p.awaitText("#object-value", "nobody")
}

// TestEditMessage checks that a message is shown and edited in its JSON form.
func TestEditMessage(t *testing.T) {
	set, err := os.ReadFile("../../internal/object/testdata/route.binpb")
	if err != nil {
		t.Fatal(err)
	}
	s := start(t, func(c *config.Config) {
		r := config.NewResource("routes")
		r.Codec, r.DescriptorSet, r.Descriptors, r.Message = "protobuf", "route.binpb", set, "acme.v1.Route"
		c.Resources = append(c.Resources, r)
	})
	s.put(t, "routes", "a", `{"region": "eu", "quota": "9007199254740993"}`)
	p := open(t, s.url+"#/routes/a", desktop)
	p.awaitText("#object-value", `"region": "eu"`)
	p.click("#object-edit")
	p.edit(`{"region": "us", "quota": "9007199254740993"}`)
	p.awaitTexts(removed, `-   "region": "eu",`)
	p.click("#edit-submit")
	p.awaitText("#object-value", `"region": "us"`)
	if got := s.object(t, "routes", "a"); got.GetText() != `{"region":"us","quota":"9007199254740993"}` || got.GetVersion() != 2 {
		t.Errorf("got %v", got)
	}
}

// startWithEtcd starts a server whose etcd other programs can reach.
func startWithEtcd(t *testing.T, change ...func(*config.Config)) (*site, *clientv3.Client) {
	address := loopback.FreeAddress(t)
	s := start(t, append(change, func(c *config.Config) { c.EmbeddedEtcdListen = address })...)
	etcd, err := clientv3.New(clientv3.Config{Endpoints: []string{address}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = etcd.Close() })
	return s, etcd
}

// TestEditOpaque checks that the page replaces a value of another program only after a confirmation.
func TestEditOpaque(t *testing.T) {
	s, etcd := startWithEtcd(t)
	const foreign = `{"rps": 100}`
	if _, err := etcd.Put(t.Context(), s.cfg.Resources[0].Prefix+"foreign", foreign); err != nil {
		t.Fatal(err)
	}
	p := open(t, s.url+"#/config/foreign", desktop)
	p.awaitText("#object-value", foreign)
	p.click("#object-edit")
	p.edit(`{"rps": 200}`)
	p.click("#edit-submit")
	p.awaitText("#edit-error", "Confirm first")
	if got := s.object(t, "config", "foreign"); !got.GetOpaque() || got.GetText() != foreign {
		t.Errorf("got %v, want the value of the other program", got)
	}
	p.click("#edit-overwrite")
	p.click("#edit-submit")
	p.awaitText("#object-value", `{"rps": 200}`)
	if got := s.object(t, "config", "foreign"); got.GetOpaque() || got.GetText() != `{"rps": 200}` {
		t.Errorf("got %v", got)
	}
}

// TestEditConflict checks that a write never replaces a value that the visitor has not seen.
func TestEditConflict(t *testing.T) {
	s := start(t)
	s.put(t, "config", "limits", "one\ntwo\nthree")
	p := open(t, s.url+"#/config/limits", desktop)
	p.click("#object-edit")
	p.edit("one\n2\nthree")
	p.awaitTexts(removed, "- two")
	s.put(t, "config", "limits", "one\ntwo\nthree\nfour")
	p.click("#edit-submit")
	p.awaitText("#edit-error", "has changed since")
	p.awaitTexts("#object-value", "one\ntwo\nthree\nfour")
	p.awaitTexts(removed, "- two", "- four")
	p.awaitTexts(added, "+ 2")
	if got := s.object(t, "config", "limits").GetText(); got != "one\ntwo\nthree\nfour" {
		t.Errorf("got %q, want the newer value", got)
	}
	p.click("#edit-submit")
	p.awaitTexts("#object-value", "one\n2\nthree")

	p.click("#object-edit")
	p.edit("new")
	s.delete(t, "config", "limits")
	p.click("#edit-submit")
	p.awaitText("#edit-error", "was deleted since")
	p.click("#edit-submit")
	p.awaitTexts("#object-value", "new")
	p.awaitObjectFact("Version", "1")
}

// TestEditKeepsWhatItDoesNotShow checks that an edit keeps the key and the line breaks as they are.
func TestEditKeepsWhatItDoesNotShow(t *testing.T) {
	s := start(t)
	s.put(t, "config", "a file ", "one\r\ntwo\r\n")
	p := open(t, s.url+"#/config/a%20file%20", desktop)
	p.click("#object-edit")
	p.click("#edit-submit")
	p.awaitTexts("#edit-diff p", "There are no changes.")
	p.click("#edit-again")
	p.edit("one\n2\n")
	p.awaitTexts(removed, "- two")
	p.click("#edit-submit")
	p.awaitObjectFact("Version", "2")
	if got := s.object(t, "config", "a%20file%20").GetText(); got != "one\r\n2\r\n" {
		t.Errorf("got %q", got)
	}
}

// TestChangesAreNotLost checks that the page asks before it discards changes, and that they survive
// a server that stops.
func TestChangesAreNotLost(t *testing.T) {
	s := start(t)
	s.put(t, "config", "limits", "one")
	s.put(t, "config", "other", "1")
	p := open(t, s.url+"#/config/other", desktop)
	p.awaitTexts("#object-value", "1")
	p.click(`[data-path="limits"]`)
	p.awaitTexts("#object-value", "one")
	p.click("#recent > summary")
	p.awaitTexts("#recent-list .type", "added")
	p.click("#object-edit")
	p.edit("two")
	eval[bool](p, `window.confirm = (question) => { window.question = question; return false; }, true`)
	for _, leave := range []string{`history.back()`, `document.querySelector('[data-path="other"]').click()`, `document.querySelector("#browse-path a").click()`} {
		eval[bool](p, `window.question = "", `+leave+`, true`)
		p.await(`window.question === "Discard your changes?" && location.hash === "#/config/limits"`)
	}
	p.awaitTexts(added, "+ two")

	s.Stop()
	p.click("#edit-submit")
	p.awaitText("#edit-error", "cannot be reached")
	p.click("#object-reload")
	p.awaitText("#object-error", "cannot be reached")
	p.awaitTexts("#object-value", "one")
	s.Start(t)
	s.awaitServing(t)
	p.click("#edit-submit")
	p.awaitTexts("#object-value", "two")
	p.awaitTexts("#recent-list .type", "modified", "added")
	p.await(`document.querySelector("#recent-error").hidden`)

	// Without changes, or if the visitor agrees, the page goes on.
	p.click("#object-edit")
	p.edit("three")
	eval[bool](p, `window.confirm = () => true, true`)
	p.click(`[data-path="other"]`)
	p.awaitTexts("#object-value", "1")
}

func TestCreateAndDelete(t *testing.T) {
	s := start(t)
	s.fill(t)
	p := open(t, s.url+"#/config/shop/cart/", desktop)
	p.awaitText("#freshness", "Live")
	create := func(key, value string) {
		t.Helper()
		p.click("#browse-new")
		p.await(`document.activeElement.id === "edit-value" || document.activeElement.id === "edit-key"`)
		if got := eval[string](p, `document.querySelector("#edit-key").value`); got != "shop/cart/" {
			t.Errorf("got the key %q, want the folder", got)
		}
		p.fill("#edit-key", key)
		p.edit(value)
		p.click("#edit-submit")
	}
	create("shop/cart/banner", "Hello")
	p.awaitTexts("#object-value", "Hello")
	p.awaitTexts(keys, "banner", "limits-prod", "limits-test")
	if !strings.HasSuffix(eval[string](p, `location.href`), "#/config/shop/cart/banner") {
		t.Error("the address does not name the new object")
	}
	// An existing object is not replaced.
	create("shop/cart/limits-prod", "Mine")
	p.awaitText("#edit-error", "An object with this key exists: it is at revision")
	p.click("#edit-cancel")

	p.click(`[data-path="shop/cart/banner"]`)
	p.awaitTexts("#object-value", "Hello")
	p.click("#object-delete")
	p.awaitText("#delete-text", "Delete shop/cart/banner of config?")
	p.click("#delete-cancel")
	s.put(t, "config", "shop/cart/banner", "Hello again")
	p.click("#object-delete")
	p.click("#delete-confirm")
	p.awaitText("#delete-error", "has changed")
	p.awaitTexts("#object-value", "Hello again")
	p.click("#delete-confirm")
	p.awaitText("#object-state", "does not exist")
	p.awaitTexts(keys, "limits-prod", "limits-test")
	p.await(`!document.querySelector("#delete").open`)
}

// TestEditWithTheKeyboard edits an object without a mouse.
func TestEditWithTheKeyboard(t *testing.T) {
	s := start(t)
	s.put(t, "config", "banner", "Hello")
	p := open(t, s.url+"#/config/banner", desktop)
	p.await(`!document.querySelector("#object-edit").hidden`)
	press := func(key string) { p.do("press a key", chromedp.KeyEvent(key)) }
	has := func(id string) { p.await(`document.activeElement.id === "` + id + `"`) }
	eval[bool](p, `document.querySelector("#object-edit").focus(), true`)
	press("\r")
	has("edit-value")
	press("!")
	press("\x1b") // does not discard changes
	has("edit-value")
	for _, id := range []string{"edit-type", "edit-labels", "edit-submit"} {
		press("\t")
		has(id)
	}
	press("\r")
	has("edit-review-title")
	press("\x1b")
	has("edit-value")
	p.click("#edit-submit")
	has("edit-review-title")
	for _, id := range []string{"", "edit-message", "edit-submit"} {
		press("\t")
		if id != "" {
			has(id)
		}
	}
	press("\r")
	p.awaitObjectFact("Version", "2")
	has("object-title")
	p.await(`!document.querySelector("#object-delete").hidden`)
	eval[bool](p, `document.querySelector("#object-delete").focus(), true`)
	press("\r")
	has("delete-cancel")
	press("\x1b")
	p.await(`!document.querySelector("#delete").open`)
	has("object-delete")
}

// TestReadersCannotEdit checks that the page offers what the visitor may do, and nothing else.
func TestReadersCannotEdit(t *testing.T) {
	s, tokens := guarded(t, `
- {subjects: [reader], verbs: [get, list], resources: [config]}
- {subjects: [writer], verbs: [get, list, watch, put], resources: [config]}
`, "reader", "writer", "stranger")
	s.fill(t)
	p := open(t, s.url+"#/config/shop/cart/limits-prod", desktop)
	controls := []string{"object-edit", "object-delete", "browse-new", "recent", "receivers"}
	use := func(who string) {
		t.Helper()
		p.await(`!document.getElementById("token").hidden || (document.querySelector("#token-open").click(), true)`)
		p.write("#token-text", tokens[who])
	}
	offered := func(who string, want ...string) {
		t.Helper()
		use(who)
		p.awaitText("#object-value", `"rps": 100`)
		p.await(`document.querySelectorAll("#browse-list a").length === 2`)
		visible := `JSON.stringify(` + quoteAll(controls) + `.filter((id) => !document.getElementById(id).hidden)) === JSON.stringify(` + quoteAll(want) + `)`
		p.await(visible)
	}
	p.awaitText("#object-error", "no credentials")
	offered("writer", "object-edit", "browse-new", "recent")
	offered("reader")
	offered("root", controls...)
	offered("reader")
	// Without rights, nothing stays that another token has shown.
	use("stranger")
	p.awaitText("#object-error", "may not get")
	p.awaitText("#browse-list .error", "may not list")
	p.await(`document.querySelector("#object-body").hidden && document.querySelectorAll("#browse-list a").length === 0`)
	p.awaitText("#watchers-error", "may not")
}

// quoteAll returns texts as a JavaScript array.
func quoteAll(texts []string) string {
	quoted := []string{}
	for _, text := range texts {
		quoted = append(quoted, quote(text))
	}
	return "[" + strings.Join(quoted, ",") + "]"
}

// TestRecentChanges checks that the page shows the changes in the window of the server, and those that
// happen while it is open.
func TestRecentChanges(t *testing.T) {
	s := start(t, func(c *config.Config) { c.Resources[0].Window.MinEvents, c.Resources[0].Window.MaxEvents = 8, 8 })
	s.put(t, "config", "limits", "too old")
	for range 8 {
		s.put(t, "config", "other", "1")
	}
	s.put(t, "config", "limits", "a\nb")
	s.put(t, "config", "limits", "a\n<b>c</b>")
	p := open(t, s.url+"#/config/limits", desktop)
	p.click("#recent > summary")
	p.awaitTexts("#recent-list .type", "modified", "modified")
	p.awaitText("#recent-state", "where the memory of the server begins")
	p.click("#recent-list li:first-child summary")
	p.awaitTexts("#recent-list li:first-child del", "- b")
	p.awaitTexts("#recent-list li:first-child ins", "+ <b>c</b>")
	s.delete(t, "config", "limits")
	p.awaitTexts("#recent-list .type", "deleted", "modified", "modified")
	p.awaitText("#recent-list li:first-child", " at ")
	p.click("#object-reload")
	p.awaitText("#object-state", "does not exist")
	p.click(`[data-path="limits"]`) // the same object
	p.awaitText("#object-state", "does not exist")
	p.awaitTexts("#recent-list .type", "deleted", "modified", "modified")
}

// TestReceivers checks that the page lists the watches whose scope and selectors match the object.
func TestReceivers(t *testing.T) {
	s := start(t)
	s.fill(t)
	watch := func(agent string, req *fanoutv1.WatchRequest) {
		req.Resource = "config"
		s.watch(t, agent, req)
	}
	watch("all/1", &fanoutv1.WatchRequest{})
	watch("prod/1", &fanoutv1.WatchRequest{LabelSelector: "env=prod"})
	watch("test/1", &fanoutv1.WatchRequest{LabelSelector: "env=test"})
	watch("named/1", &fanoutv1.WatchRequest{FieldSelector: "name=limits-prod", Scope: below("shop")})
	watch("other/1", &fanoutv1.WatchRequest{Scope: below("shop/ca")})
	watch("key/1", &fanoutv1.WatchRequest{Scope: only("shop/cart/limits-prod")})
	s.watch(t, "flags/1", &fanoutv1.WatchRequest{Resource: "flags"})
	p := open(t, s.url+"#/config/shop/cart/limits-prod", desktop)
	p.click("#receivers > summary")
	p.awaitTexts("#receivers-list small:nth-child(2)", "all/1 "+grpcVersion, "prod/1 "+grpcVersion, "named/1 "+grpcVersion, "key/1 "+grpcVersion)
	p.awaitTexts("#receivers-state", "4 watches of this server")
}

// TestReceiversThatFailForOtherObjects checks that an error counts only for the objects that it names.
func TestReceiversThatFailForOtherObjects(t *testing.T) {
	s := start(t)
	s.put(t, "config", "flags/bad", "bad")
	s.put(t, "config", "flags/new", "1")
	w := s.begin(t, &fanoutv1.WatchRequest{Resource: "config", Reports: true, Subscriber: &fanoutv1.Subscriber{Instance: "strict-1"}})
	var position *fanoutv1.Position
	for kind := fanoutv1.WatchResponse_KIND_CATCH_UP_BEGIN; kind != fanoutv1.WatchResponse_KIND_SYNCED; {
		m, err := w.Recv()
		if err != nil {
			t.Fatal(err)
		}
		kind, position = m.GetKind(), m.GetPosition()
	}
	at := position.GetRevision() // of flags/new
	header, err := w.Header()
	if err != nil {
		t.Fatal(err)
	}
	report := &fanoutv1.ReportRequest{
		Watch: header.Get("fanout-watch")[0], Applied: &fanoutv1.Position{Epoch: position.GetEpoch(), Revision: at - 2},
		Error: &status.Status{Code: 3, Message: "not a flag"}, Attempted: position, FailedKeys: []string{"flags/bad"},
	}
	if _, err := fanoutv1.NewFanoutServiceClient(s.conn).Report(t.Context(), report); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string][]string{
		"flags/bad": {"applied: failed · not a flag", "applied: failed"},
		"flags/new": {fmt.Sprint("applied: up to date · up to revision ", at)},
	} {
		p := open(t, s.url+"#/config/"+key, desktop)
		p.click("#receivers > summary")
		p.awaitText("#receivers-list small:last-child", want[0])
		p.awaitTexts(`#receivers-list [data-failed="true"] span`, want[1:]...)
	}
	p := open(t, s.url, desktop)
	p.click("#watchers-rows th summary")
	p.awaitText("#watchers-rows th details", "cannot apply flags/bad")

	// A newer version was not attempted.
	s.put(t, "config", "flags/new", "2")
	p = open(t, s.url+"#/config/flags/new", desktop)
	p.click("#receivers > summary")
	p.awaitText("#receivers-list small:last-child", fmt.Sprint(" late · up to revision ", at-2))
}
