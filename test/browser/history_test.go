package browser

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/config"
)

// remembers gives the resource config a history.
func remembers(c *config.Config) { c.Resources[0].History = config.NewHistory() }

// because stores a text in the resource config, with a message.
func (s *site) because(t *testing.T, key, text, message string) (revision int64) {
	t.Helper()
	put := &fanoutv1.PutOperation{Key: key, Value: &fanoutv1.PutOperation_Text{Text: text}}
	if strings.HasPrefix(text, "{") {
		put.ContentType = "application/json"
	}
	a, err := fanoutv1.NewStoreServiceClient(s.conn).Put(t.Context(), &fanoutv1.PutRequest{Resource: "config", Put: put, Message: message})
	if err != nil {
		t.Fatal(err)
	}
	return a.GetRevision()
}

// past returns the newest entries of a key from the API.
func (s *site) past(t *testing.T, key string) []*fanoutv1.HistoryEntry {
	t.Helper()
	a, err := fanoutv1.NewFanoutServiceClient(s.conn).History(t.Context(), &fanoutv1.HistoryRequest{Resource: "config", Scope: only(key), Values: true})
	if err != nil {
		t.Fatal(err)
	}
	return a.GetEntries()
}

// wrote checks the newest write of a key.
func (s *site) wrote(t *testing.T, key string, kind fanoutv1.HistoryEntry_Kind, text, message string) {
	t.Helper()
	e := s.past(t, key)[0]
	if e.GetKind() != kind || e.GetMessage() != message || e.GetObject().GetText() != text {
		t.Errorf("got %v, want %v of %q with the message %q", e, kind, text, message)
	}
}

const (
	entries  = "#history-list .type"
	newest   = "#history-list > li:first-child"
	attacker = `<img src=x onerror="window.attacked=1">`
)

// TestMessages checks that each write and delete of the page stores its message, and that the page shows who wrote an
// object last, when and why.
func TestMessages(t *testing.T) {
	s := start(t, remembers)
	s.because(t, "limits", `{"rps": 100}`, attacker+"\nsecond line")
	p := open(t, s.url+"#/config/limits", desktop)
	p.awaitObjectFact("Written by", "anonymous")
	p.awaitText("#object-facts", attacker)
	p.click("#object-edit")
	p.edit(`{"rps": 5000}`)
	p.write("#edit-message", "evening traffic")
	p.awaitObjectFact("Message", "evening traffic")
	s.wrote(t, "limits", fanoutv1.HistoryEntry_KIND_PUT, `{"rps": 5000}`, "evening traffic")

	// The next write begins with an empty message.
	p.click("#object-edit")
	p.edit(`{"rps": 6000}`)
	p.click("#edit-submit")
	p.awaitText("#object-value", "6000")
	s.wrote(t, "limits", fanoutv1.HistoryEntry_KIND_PUT, `{"rps": 6000}`, "")
	p.await(`!document.querySelector("#object-facts").innerText.includes("Message")`)
	p.await(`document.querySelector("#object-facts").innerText.includes("Written by")`)

	p.click("#object-delete")
	p.awaitText("#delete-text", "Delete limits")
	p.fill("#delete-message", "no longer used")
	p.click("#delete-confirm")
	p.awaitText("#object-state", "It was deleted by anonymous, ")
	p.awaitText("#object-state", ": no longer used")
	s.wrote(t, "limits", fanoutv1.HistoryEntry_KIND_DELETE, "", "no longer used")
	if eval[bool](p, `"attacked" in window`) {
		t.Error("a message has become markup")
	}
}

// TestHistory checks what the page shows of each kind of entry.
func TestHistory(t *testing.T) {
	s, etcd := startWithEtcd(t, remembers)
	s.because(t, "limits", `{"rps": 100, "burst": 1}`, "first")
	s.because(t, "limits", attacker, attacker+"\nsecond line")
	s.delete(t, "config", "limits")
	if _, err := etcd.Put(t.Context(), s.cfg.Resources[0].Prefix+"limits", "foreign"); err != nil {
		t.Fatal(err)
	}
	p := open(t, s.url+"#/config/limits", desktop)
	p.awaitText("#object-value", "foreign")
	p.awaitObjectFact("Written by", "another program")
	p.click("#history > summary")
	p.awaitTexts(entries, "gap", "delete", "put", "put")
	p.awaitTexts("#history-state", "3 writes")
	p.awaitText(newest, "another program changed the key in etcd")
	p.awaitText("#history-list > li:nth-child(3) .message", attacker)

	p.click("#history-list > li:nth-child(3) summary")
	p.awaitTexts("#history-list > li:nth-child(3) .entry .message", attacker+"\nsecond line")
	p.awaitTexts("#history-list > li:nth-child(3) .entry .diff:nth-of-type(1) del", "- content type: application/json", "- {", `-   "rps": 100,`, `-   "burst": 1`, "- }")
	p.awaitText("#history-list > li:nth-child(3) .entry", "+ foreign")
	p.click("#history-list > li:nth-child(4) summary")
	p.awaitText("#history-list > li:nth-child(4) .entry", "The history does not go further back.")
	p.awaitText("#history-list > li:nth-child(4) .entry", `+   "rps": 100,`)
	if n := eval[int](p, `document.querySelectorAll("main img").length`); n != 0 || eval[bool](p, `"attacked" in window`) {
		t.Error("user text has become markup")
	}
	p.fits()
}

// TestHistoryOfAFolder checks the pages of the history of a folder, with writes of one transaction.
func TestHistoryOfAFolder(t *testing.T) {
	s := start(t, remembers)
	s.because(t, "elsewhere", "1", "not here")
	s.putMany(t, "shop/many-", 3)
	for i := range 60 {
		s.because(t, "shop/counter", fmt.Sprint(i), fmt.Sprint("write ", i))
	}
	p := open(t, s.url+"#/config/shop/", desktop)
	p.click("#browse-history")
	p.awaitTexts("#object-title", "History of config/shop/")
	p.awaitTexts("#history-state", "50 writes so far")
	p.awaitText(newest, "write 59")
	p.click("#history-more")
	p.awaitTexts("#history-state", "63 writes")
	p.awaitText("#history-list > li:last-child", "one of 3 keys of a transaction")
	p.await(`!document.querySelector("#history-list").innerText.includes("elsewhere")`)
	p.await(`document.querySelector("#history-more").hidden`)
	p.click("#history-list > li:nth-child(2) summary")
	p.awaitTexts("#history-list > li:nth-child(2) .diff:nth-of-type(1) ins", "+ 58")
	before := s.past(t, "shop/counter")[1].GetRevision()
	p.awaitTexts("#history-list > li:nth-child(2) code", fmt.Sprintf("fanoutctl rollback config shop/ --to %d", before))
	p.click("#history-list > li:nth-child(2) .rollback")
	p.awaitText("#rollback-title", "Roll back shop/counter to revision")
	p.await(`!document.querySelector("#rollback-confirm").disabled`)
	p.click("#rollback-confirm")
	p.awaitText(newest, "rollback to revision")
	if got := s.object(t, "config", "shop/counter").GetText(); got != "58" {
		t.Errorf("got %q, want the restored value", got)
	}

	// Another resource has none.
	eval[bool](p, `location.hash = "#/flags/", true`)
	p.awaitTexts("#browse-path", "flags/")
	p.click("#browse-history")
	p.awaitTexts("#history-state", "This resource has no history.")
	s.put(t, "flags", "a", "{}")
	eval[bool](p, `location.hash = "#/flags/a", true`)
	p.awaitTexts("#object-value", "{}")
	p.await(`!document.querySelector("#recent").hidden && document.querySelector("#history").hidden`)
}

// TestRollback checks that a rollback is shown before it is written, writes the old content with a message that names its
// source, and is refused if somebody has written since.
func TestRollback(t *testing.T) {
	s := start(t, remembers)
	s.put(t, "config", "limits", `{"rps": 100}`, "env", "prod")
	first := s.object(t, "config", "limits").GetModRevision()
	second := s.because(t, "limits", `{"rps": 5000}`, "evening traffic")
	p := open(t, s.url+"#/config/limits", desktop)
	p.click("#history > summary")
	p.awaitTexts(entries, "put", "put")
	p.click("#history-list > li:first-child summary")
	p.awaitText("#history-list > li:first-child .entry", "There is no difference.")
	if n := eval[int](p, `document.querySelectorAll(".rollback").length`); n != 0 {
		t.Error("the present state can be rolled back to")
	}
	p.click("#history-list > li:nth-child(2) summary")
	p.click("#history-list > li:nth-child(2) .rollback")
	p.awaitTexts("#rollback-title", fmt.Sprint("Roll back limits to revision ", first))
	p.awaitText("#rollback-text", fmt.Sprint("which is at revision ", second))
	p.awaitTexts("#rollback-diff del", `-   "rps": 5000`)
	p.awaitTexts("#rollback-diff ins", "+ label: env=prod", `+   "rps": 100`)
	p.awaitTexts("#rollback-note", fmt.Sprintf("The message begins with “rollback to revision %d”.", first))
	p.fits()
	p.as(desktop)
	p.fill("#rollback-message", "too many")

	// Somebody writes meanwhile.
	third := s.because(t, "limits", `{"rps": 7}`, "mine")
	p.click("#rollback-confirm")
	p.awaitText("#rollback-error", fmt.Sprint("Nothing was written: the object has changed meanwhile, and is at revision ", third, " now"))
	p.awaitTexts("#rollback-diff del", `-   "rps": 7`)
	s.wrote(t, "limits", fanoutv1.HistoryEntry_KIND_PUT, `{"rps": 7}`, "mine")
	p.click("#rollback-confirm")
	p.await(`!document.querySelector("#rollback").open`)
	p.awaitText("#object-value", `"rps": 100`)
	p.awaitObjectFact("Labels", "env=prod")
	message := fmt.Sprintf("rollback to revision %d: too many", first)
	p.awaitObjectFact("Message", message)
	s.wrote(t, "limits", fanoutv1.HistoryEntry_KIND_PUT, `{"rps": 100}`, message)
	p.awaitTexts(entries, "put", "put", "put", "put")

	// A deleted object comes back, and one that did not exist is deleted.
	s.delete(t, "config", "limits")
	p.click("#object-reload")
	p.awaitTexts(entries, "delete", "put", "put", "put", "put")
	p.click("#history-list > li:nth-child(5) summary")
	p.click("#history-list > li:nth-child(5) .rollback")
	p.awaitText("#rollback-text", "created again")
	p.await(`!document.querySelector("#rollback-confirm").disabled`)
	p.click("#rollback-confirm")
	p.awaitText("#object-value", `"rps": 100`)
	p.awaitTexts(entries, "put", "delete", "put", "put", "put", "put")
	p.click("#history-list > li:nth-child(2) summary")
	p.click("#history-list > li:nth-child(2) .rollback")
	p.awaitText("#rollback-text", "The object is deleted.")
	p.await(`!document.querySelector("#rollback-confirm").disabled`)
	p.click("#rollback-confirm")
	p.awaitText("#object-state", "It was deleted by anonymous")
	p.awaitTexts(entries, "delete", "put", "delete", "put", "put", "put", "put")
}

// TestRollbackNeedsRights checks that the history and the rollback are offered only to visitors who may use them.
func TestRollbackNeedsRights(t *testing.T) {
	s, tokens := guarded(t, `
- {subjects: [reader], verbs: [get, list, history], resources: [config]}
- {subjects: [writer], verbs: [get, list, put], resources: [config]}
- {subjects: [both], verbs: [get, list, put, history], resources: [config]}
`, "reader", "writer", "both")
	s.because(t, "limits", "1", "")
	s.because(t, "limits", "2", "why")
	p := open(t, s.url+"#/config/limits", desktop)
	use := func(who string) {
		t.Helper()
		p.await(`!document.getElementById("token").hidden || (document.querySelector("#token-open").click(), true)`)
		p.write("#token-text", tokens[who])
		p.awaitTexts("#object-value", "2")
	}
	second := "#history-list > li:nth-child(2)"
	use("both")
	p.awaitObjectFact("Written by", "root")
	p.click("#history > summary")
	p.awaitTexts(entries, "put", "put")
	p.click(second + " summary")
	p.click(second + " .rollback")
	p.awaitTexts("#rollback-diff ins", "+ 1")
	p.click("#rollback-cancel")
	p.await(`document.querySelector("#rollback-diff").textContent + document.querySelector("#rollback-title").textContent === ""`) // hidden, it would be a leak
	use("writer")
	p.await(`!document.querySelector("#object-edit").hidden && document.querySelector("#history").hidden && document.querySelector("#browse-history").hidden`)
	p.await(`document.querySelectorAll("#history-list li").length === 0 && !document.querySelector("#object-facts").innerText.includes("Written by")`)
	use("reader")
	p.click("#history > summary")
	p.awaitTexts(entries, "put", "put")
	p.click(second + " summary")
	p.awaitText(second+" .entry", "What has changed since")
	if n := eval[int](p, `document.querySelectorAll(".rollback").length`); n != 0 {
		t.Error("a reader is offered to roll back")
	}
}

// TestRollbackOverAnotherProgram checks that a value of another program is replaced only if the visitor confirms it.
func TestRollbackOverAnotherProgram(t *testing.T) {
	s, etcd := startWithEtcd(t, remembers)
	s.because(t, "limits", "mine", "first")
	if _, err := etcd.Put(t.Context(), s.cfg.Resources[0].Prefix+"limits", "foreign"); err != nil {
		t.Fatal(err)
	}
	p := open(t, s.url+"#/config/limits", desktop)
	p.awaitText("#object-value", "foreign")
	p.click("#history > summary")
	p.awaitTexts(entries, "gap", "put")
	p.click("#history-list > li:nth-child(2) summary")
	p.click("#history-list > li:nth-child(2) .rollback")
	p.await(`!document.querySelector("#rollback-confirm").disabled`)
	p.click("#rollback-confirm")
	p.awaitText("#rollback-error", "Confirm first that the present value may be replaced.")
	p.fits()
	p.as(desktop)
	p.click("#rollback-overwrite")
	p.click("#rollback-confirm")
	p.awaitText("#object-value", "mine")
	if got := s.object(t, "config", "limits").GetText(); got != "mine" {
		t.Errorf("got %q, want the restored value", got)
	}
}

// leased stores a text with a time to live, which the history does not record.
func (s *site) leased(t *testing.T, key, text string) {
	t.Helper()
	s.write(t, "config", &fanoutv1.PutOperation{Key: key, Value: &fanoutv1.PutOperation_Text{Text: text}, Ttl: durationpb.New(time.Hour)})
}

// TestRollbackOfATimeToLive checks that a time to live that an object has got since is a difference.
func TestRollbackOfATimeToLive(t *testing.T) {
	s := start(t, remembers)
	s.because(t, "limits", "1", "first")
	s.leased(t, "limits", "1")
	p := open(t, s.url+"#/config/limits", desktop)
	p.click("#history > summary")
	p.awaitText("#history-list > li:last-child", "first")
	p.click("#history-list > li:last-child summary")
	p.awaitText("#history-list > li:last-child .entry", "The object then has a time to live.")
	p.click("#history-list > li:last-child .rollback")
	p.awaitText("#rollback-text", "It then has no time to live any more.")
	p.awaitTexts("#rollback-diff", "The object then has no time to live.")
	p.click("#rollback-confirm")
	p.await(`!document.querySelector("#rollback").open`)
	if s.object(t, "config", "limits").GetHasTtl() {
		t.Error("the object still has a time to live")
	}
}

// TestHistoryAfterAnUnrecordedWrite checks that a write is compared only with what it has replaced.
func TestHistoryAfterAnUnrecordedWrite(t *testing.T) {
	s := start(t, remembers)
	const unknown = "The history does not have what this write replaced."
	s.because(t, "deleted", "1", "")
	s.delete(t, "config", "deleted")
	s.leased(t, "deleted", "2")
	s.because(t, "deleted", "3", "")
	p := open(t, s.url+"#/config/deleted", desktop)
	p.click("#history > summary")
	p.awaitTexts(entries, "put", "delete", "put")
	p.click(newest + " summary")
	p.awaitText(newest+" .entry", unknown)
	p.click("#history-list > li:nth-child(2) summary")
	p.awaitTexts("#history-list > li:nth-child(2) .diff:nth-of-type(1) del", "- content type: text/plain; charset=utf-8", "- 1")
}

// TestRollbackWhoseAnswerIsLost checks what the page says of a write if its answer does not arrive.
func TestRollbackWhoseAnswerIsLost(t *testing.T) {
	s := start(t, remembers)
	s.because(t, "limits", "1", "first")
	s.because(t, "limits", "2", "second")
	p := open(t, s.url+"#/config/limits", desktop)
	p.click("#history > summary")
	p.awaitTexts(entries, "put", "put")
	eval[bool](p, `window.real = window.fetch, window.fetch = async (url, init) => {
		if (!String(url).includes("/transactions")) return window.real(url, init);
		if (window.reaches) await window.real(url, init);
		throw new TypeError("lost");
	}, true`)
	p.click("#history-list > li:nth-child(2) summary")
	p.click("#history-list > li:nth-child(2) .rollback")
	p.await(`!document.querySelector("#rollback-confirm").disabled`)
	p.click("#rollback-confirm")
	p.awaitText("#rollback-error", "The write may have been applied.")
	p.await(`!document.querySelector("#rollback-confirm").disabled`)
	eval[bool](p, `window.reaches = true`)
	p.click("#rollback-confirm")
	p.await(`!document.querySelector("#rollback").open`)
	p.awaitTexts("#object-value", "1")
	p.awaitTexts(entries, "put", "put", "put")
}

// TestLongMessages checks that the page counts the bytes of a message, and what a rollback puts before it.
func TestLongMessages(t *testing.T) {
	s := start(t, remembers)
	first := s.because(t, "limits", "1", "")
	s.because(t, "limits", "2", "")
	p := open(t, s.url+"#/config/limits", desktop)
	p.click("#object-edit")
	p.edit("3")
	p.enter("#edit-message", strings.Repeat("ä", 513))
	p.awaitText("#edit-error", "bytes, the limit is")
	p.enter("#edit-message", strings.Repeat("ä", 512))
	p.await(`document.querySelector("#edit-error").hidden`)
	p.click("#edit-submit")
	p.awaitTexts("#object-value", "3")
	p.await(`document.querySelector("#history").open || (document.querySelector("#history > summary").click(), false)`) // it still moves
	p.awaitTexts(entries, "put", "put", "put")
	p.click("#history-list > li:last-child summary")
	p.click("#history-list > li:last-child .rollback")
	p.await(`!document.querySelector("#rollback-confirm").disabled`)
	p.enter("#rollback-message", strings.Repeat("x", 1024))
	p.awaitText("#rollback-error", "The message is too long")
	p.click("#rollback-confirm")
	text := strings.Repeat("x", 1024-len(fmt.Sprintf("rollback to revision %d: ", first)))
	p.enter("#rollback-message", text)
	p.await(`document.querySelector("#rollback-error").hidden`)
	p.click("#rollback-confirm")
	p.await(`!document.querySelector("#rollback").open`)
}

// TestRestoredObjectsAreInTheTree checks the tree after rollbacks that create and delete an object from the history of its folder.
func TestRestoredObjectsAreInTheTree(t *testing.T) {
	s := start(t, remembers)
	s.because(t, "x/other", "1", "")
	s.because(t, "x/limits", "1", "")
	s.delete(t, "config", "x/limits")
	s.because(t, "x/limits", "2", "")
	p := open(t, s.url+"#/config/x/", desktop)
	const item = `document.querySelector('#browse-list [data-path="x/limits"]')`
	p.await(item)
	p.click("#browse-history")
	p.awaitTexts(entries, "put", "delete", "put", "put")
	p.click("#history-list > li:nth-child(2) summary")
	p.click("#history-list > li:nth-child(2) .rollback")
	p.await(`!document.querySelector("#rollback-confirm").disabled`)
	p.click("#rollback-confirm")
	p.await("!" + item)
}
