package browser

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"google.golang.org/protobuf/proto"

	storagev1 "github.com/fanoutd/fanoutd/gen/fanout/storage/v1"
	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/access"
	"github.com/fanoutd/fanoutd/internal/config"
	"github.com/fanoutd/fanoutd/test/certs"
)

// Selectors of the tree or search result, and of the object beside it.
const (
	folders = "#browse-list summary"
	keys    = "#browse-list a"
)

// browse opens the tree of a resource from its card.
func (p *tab) browse(resource string) {
	p.t.Helper()
	p.awaitText("#freshness", "Live")
	p.click(`[aria-label="Browse ` + resource + `"]`)
	p.await(`document.querySelector("#browse-list li")`)
}

// find searches for a text.
func (p *tab) find(how, text string) {
	p.t.Helper()
	p.choose("#browse-how", how)
	p.write("#browse-text", text)
}

// awaitObjectFact waits for a fact about the object that is shown.
func (p *tab) awaitObjectFact(name, value string) {
	p.t.Helper()
	p.await(`Array.from(document.querySelectorAll("#object-facts div")).some((d) => d.firstChild.innerText === ` + quote(name) + ` && d.lastChild.innerText === ` + quote(value) + `)`)
}

func TestBrowseTheTree(t *testing.T) {
	s := start(t)
	s.fill(t)
	s.put(t, "config", "shop", "not a folder")
	s.put(t, "config", "zone", "last")
	p := open(t, s.url, desktop)
	p.browse("config")
	p.awaitTexts(folders, "shop/\n8")
	p.awaitTexts(keys, "shop", "zone")
	p.click(folders)
	p.awaitTexts(folders, "shop/\n8", "cart/\n2", "payment/\n2", "search/\n2", "stock/\n2")
	p.click("#browse-list .level .level li:nth-child(2) summary")
	p.awaitTexts(keys, "shop", "limits-prod", "limits-test", "zone")
	p.click(`[data-path="shop/payment/limits-prod"]`)
	p.awaitTexts("#object-title", "shop/payment/limits-prod")
	p.awaitTexts("#object-value", "{\n  \"rps\": 300,\n  \"burst\": 20\n}")
	p.awaitObjectFact("Content type", "application/json")
	p.awaitObjectFact("Labels", "env=prod, team=payment")
	p.awaitObjectFact("Version", "1")
	p.await(`document.activeElement.id === "object-title"`)
	p.awaitTexts(`[aria-current]`, "limits-prod")

	// The address names the object, so a link to it and the back button work.
	address := eval[string](p, `location.href`)
	p.click(`[data-path="zone"]`)
	p.awaitTexts("#object-value", "last")
	eval[bool](p, `history.back(), true`)
	p.awaitTexts("#object-title", "shop/payment/limits-prod")
	p = open(t, address, desktop)
	p.awaitTexts("#object-title", "shop/payment/limits-prod")
	p.awaitTexts(keys, "limits-prod", "limits-test")
	p.awaitTexts("#browse-path a", "config/", "shop/", "payment/")
	p.click("#browse-path a:nth-child(2)")
	p.awaitTexts(folders, "cart/\n2", "payment/\n2", "search/\n2", "stock/\n2")
	p.await(`document.querySelector("#object").hidden`)
	s.delete(t, "config", "zone")
	eval[bool](p, `location.hash = "#/config/zone", true`)
	p.awaitText("#object-state", "does not exist")
}

// TestValues checks how values are shown that are not plain text. Numbers keep all their digits.
func TestValues(t *testing.T) {
	s, etcd := startWithEtcd(t)
	s.put(t, "config", "json", `{"id": 12345678901234567890, "none": [], "list": [1.50, "a\"b,{"]}`)
	// A put refuses broken JSON, but an older server may have stored it.
	broken, err := proto.Marshal(&storagev1.Envelope{ContentType: "application/json", Value: []byte(`{"id": `)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := etcd.Put(t.Context(), s.cfg.Resources[0].Prefix+"broken", "\x00fo\x01"+string(broken)); err != nil {
		t.Fatal(err)
	}
	s.put(t, "config", "deep", "{\"a\":"+strings.Repeat("[", 300)+strings.Repeat("]", 300)+"}")
	s.put(t, "config", "long", strings.Repeat("0123456789abcdef", 5000))
	s.write(t, "config", &fanoutv1.PutOperation{Key: "binary", Value: &fanoutv1.PutOperation_Data{Data: []byte("\x00\xffabc<b>xyz")}})
	p := open(t, s.url+"#/config/json", desktop)
	p.awaitTexts("#object-value", "{\n  \"id\": 12345678901234567890,\n  \"none\": [],\n  \"list\": [\n    1.50,\n    \"a\\\"b,{\"\n  ]\n}")
	p.click(`[data-path="broken"]`)
	p.awaitTexts("#object-value", `{"id":`)
	p.click(`[data-path="deep"]`)
	p.awaitText("#object-value", `{"a":[[[[`)
	p.click(`[data-path="binary"]`)
	p.awaitText("#object-value", "0000  00 ff 61 62 63 3c 62 3e  ..abc<b>\n0008  78 79 7a")
	p.awaitObjectFact("Size", "11 B")
	p.awaitTexts("#object-note", "binary")
	p.click(`[data-path="long"]`)
	p.awaitTexts("#object-all", "Show the other 14,464 characters")
	p.click("#object-all")
	p.await(`document.querySelector("#object-value").innerText.length === 80000`)
}

func TestSearch(t *testing.T) {
	s := start(t)
	s.fill(t)
	p := open(t, s.url, desktop)
	p.browse("config")
	p.find("prefix", "shop/s")
	p.awaitTexts(keys, "shop/search/limits-prod", "shop/search/limits-test", "shop/stock/limits-prod", "shop/stock/limits-test")
	p.awaitTexts("#browse-list .hint", "4 matches")
	p.find("prefix", "shop/p")
	p.awaitTexts(keys, "shop/payment/limits-prod", "shop/payment/limits-test")
	p.find("part", "ock/limits-t")
	p.awaitTexts(keys, "shop/stock/limits-test")
	p.click(keys)
	p.awaitTexts("#object-title", "shop/stock/limits-test")
	p.awaitTexts("#browse-list .hint", "1 match")
	p.find("labels", "env=prod,team in (cart,stock)")
	p.awaitTexts(keys, "shop/cart/limits-prod", "shop/stock/limits-prod")
	p.find("labels", "env in (")
	p.awaitText("#browse-list .error", "label_selector")
	p.find("part", "nothing has this")
	p.awaitTexts("#browse-list .hint", "0 matches")
	p.click("#browse-clear")
	p.awaitTexts(folders, "shop/\n8")
}

// TestLargeResource checks that the page reads a large resource in small pieces, and skips the
// rest of large folders.
func TestLargeResource(t *testing.T) {
	s := start(t, func(c *config.Config) { c.Resources = c.Resources[:1] })
	for folder := range 6 {
		s.putMany(t, fmt.Sprintf("many-%d/key-", folder), 300)
	}
	s.putMany(t, "single-", 250)
	p := open(t, s.url, desktop)
	p.browse("config")
	p.awaitTexts(folders, "many-0/\n300", "many-1/\n300", "many-2/\n300", "many-3/\n300", "many-4/\n300", "many-5/\n300")
	shown := func() int { return len(p.texts(keys)) }
	first := shown()
	if first < 50 || first > 200 {
		t.Errorf("got %d keys at first, want about a hundred", first)
	}
	asked := eval[int](p, `performance.getEntriesByType("resource").map((e) => Number(new URL(e.name).searchParams.get("pageSize"))).filter((n) => n > 20 || n < 20).reduce((a, b) => a + b)`)
	if asked > 500 {
		t.Errorf("the page asked for %d of 2050 objects", asked)
	}
	p.click("#browse-list > .level > button")
	p.await(fmt.Sprintf(`document.querySelectorAll(%s).length === 250`, quote(keys)))
	p.await(`document.querySelector("#browse-list > .level > button").hidden`)
	if got := p.texts(keys); !slices.IsSorted(got) || got[249] != "single-249" {
		t.Errorf("got keys %q", got)
	}

	p.find("part", "key-29")
	p.awaitText("#browse-list .hint", "60 matches")
	p.find("part", "-1")
	p.awaitText("#browse-list .hint", " so far, in ")
	if got := shown(); got < 100 || got > 300 {
		t.Errorf("got %d matches at first", got)
	}
	first = shown()
	p.click("#browse-list .level > button")
	p.await(fmt.Sprintf(`document.querySelectorAll(%s).length > %d`, quote(keys), first))
	if n := eval[int](p, `performance.getEntriesByType("resource").filter((e) => e.name.includes("/objects?") && !/omitValues=true|countOnly=true/.test(e.name)).length`); n > 0 {
		t.Errorf("%d requests for keys ask for values, too", n)
	}
}

// putMany writes objects whose keys end with numbers of three digits.
func (s *site) putMany(t *testing.T, prefix string, n int) {
	t.Helper()
	for first := 0; first < n; first += 100 {
		req := &fanoutv1.TransactRequest{Resource: "config"}
		for i := first; i < min(n, first+100); i++ {
			put := &fanoutv1.PutOperation{Key: fmt.Sprintf("%s%03d", prefix, i), Value: &fanoutv1.PutOperation_Text{Text: "x"}}
			req.Operations = append(req.Operations, &fanoutv1.Operation{Operation: &fanoutv1.Operation_Put{Put: put}})
		}
		if _, err := fanoutv1.NewStoreServiceClient(s.conn).Transact(t.Context(), req); err != nil {
			t.Fatal(err)
		}
	}
}

// TestBrowseHostileText checks that keys and values cannot become markup or scripts, wherever the
// page shows them.
func TestBrowseHostileText(t *testing.T) {
	s := start(t)
	const attack = `<img src=x onerror="window.attacked = 1"><script>window.attacked = 2<|script>`
	key := attack + "/" + attack + `"]'#?%2F\`
	s.write(t, "config", &fanoutv1.PutOperation{
		Key: key, Value: &fanoutv1.PutOperation_Text{Text: strings.ReplaceAll(attack, "|", "/")}, ContentType: "text/html",
	})
	s.write(t, "config", &fanoutv1.PutOperation{Key: "javascript:window.attacked=3", Value: &fanoutv1.PutOperation_Text{Text: "1"}})
	p := open(t, s.url, desktop)
	p.browse("config")
	p.awaitTexts(folders, attack+"/\n1")
	p.click(folders)
	p.await(`document.querySelectorAll("#browse-list .level .level a").length === 1`)
	p.click("#browse-list .level .level a")
	p.awaitTexts("#object-title", key)
	p.awaitTexts("#object-value", strings.ReplaceAll(attack, "|", "/"))
	p.awaitObjectFact("Content type", "text/html")
	p.click("#browse-list > .level > ul > li:last-child > a")
	p.awaitTexts("#object-title", "javascript:window.attacked=3")
	p.find("part", "<script>")
	p.awaitTexts(keys, key)
	p.find("labels", attack)
	p.awaitText("#browse-list .error", "found '<'")
	if n := eval[int](p, `document.querySelectorAll("main script, main img").length`); n != 0 || eval[bool](p, `"attacked" in window`) {
		t.Errorf("user text has become %d elements, or a script has run", n)
	}
}

// guarded starts a server whose visitors need tokens, and returns the token of each subject of the
// rules.
func guarded(t *testing.T, rules string, subjects ...string) (*site, map[string]string) {
	t.Helper()
	file, policy := filepath.Join(t.TempDir(), "tokens"), filepath.Join(t.TempDir(), "policy.yaml")
	tokens := map[string]string{}
	var lines strings.Builder
	for _, name := range append(subjects, "root") {
		token, line, err := access.NewToken(name, nil)
		if err != nil {
			t.Fatal(err)
		}
		tokens[name] = token
		lines.WriteString(line + "\n")
	}
	certs.Write(t, file, []byte(lines.String()))
	certs.Write(t, policy, []byte("rules:\n- {subjects: [root], verbs: ['*'], resources: ['*']}\n"+rules))
	return startFor(t, bearer(tokens["root"]), func(cfg *config.Config) { cfg.TokenFile, cfg.PolicyFile = file, policy }, remembers), tokens
}

// TestBrowseWithFewRights checks that a visitor who may read one path only can browse that path.
func TestBrowseWithFewRights(t *testing.T) {
	s, tokens := guarded(t, "- {subjects: [reader], verbs: [get, list], resources: [config], prefixes: [shop/cart]}\n", "reader")
	s.fill(t)
	p := open(t, s.url, desktop)
	p.await(`!document.getElementById("token").hidden`)
	p.write("#token-text", tokens["reader"])
	p.awaitText("#resources-error", "may not")
	p.write("#browse-name", "config")
	p.awaitText("#browse-list .error", "may not list")
	p.write("#browse-name", "config/shop/cart/")
	p.awaitTexts(keys, "limits-prod", "limits-test")
	p.click(keys)
	p.awaitText("#object-value", `"rps": 100`)
	p.find("prefix", "shop/cart/limits-t")
	p.awaitTexts(keys, "shop/cart/limits-test")
	p.find("part", "-prod")
	p.awaitTexts(keys, "shop/cart/limits-prod")
	p.awaitTexts("#browse-list .hint", "1 match below shop/cart")
	p.awaitTexts("#tail-resource option", "config")
	eval[bool](p, `location.hash = "#/config/shop/stock/limits-prod", true`)
	p.awaitText("#object-error", "may not get")
	p.await(`document.querySelector("#object-body").hidden`)
}

// TestBrowseOnAPhone checks that the list and an object fit on a phone.
func TestBrowseOnAPhone(t *testing.T) {
	s := start(t)
	s.fill(t)
	long := strings.Repeat("averylongname", 12)
	s.put(t, "config", long+"/"+long, strings.Repeat("x", 2000), "a-label", strings.Repeat("v", 63))
	p := open(t, s.url, phone)
	p.browse("config")
	p.click(folders)
	p.click("#browse-list .level .level a")
	p.awaitTexts("#object-title", long+"/"+long)
	p.awaitText("#object-value", "xxx")
	if top := eval[float64](p, `document.querySelector("#object").getBoundingClientRect().top`); top < 0 || top > 50 {
		t.Errorf("the object that was chosen begins %v pixels below the top of the window", top)
	}
	p.fits()
	p.click("#recent > summary")
	p.awaitTexts("#recent-list .type", "added")
	p.click("#recent-list summary")
	p.awaitText("#recent-list pre", "xxx")
	p.click("#receivers > summary")
	p.awaitText("#receivers-list", "status page")
	p.click("#object-edit")
	p.fits()
	p.edit(strings.Repeat("y", 2000))
	p.fits()
	p.click("#edit-cancel")
	p.click("#object-delete")
	p.awaitText("#delete-text", long)
	p.fits()
	p.click("#delete-cancel")
	p.find("part", "averylong")
	p.awaitTexts(keys, long+"/"+long)
	p.fits()
}

// TestBrowseWithTheKeyboard goes to an object and back without a mouse.
func TestBrowseWithTheKeyboard(t *testing.T) {
	s := start(t)
	s.fill(t)
	p := open(t, s.url, desktop)
	p.browse("config")
	press := func(key string) { p.do("press a key", chromedp.KeyEvent(key)) }
	// tabTo presses Tab until the element has the focus.
	tabTo := func(selector string) {
		t.Helper()
		for range 40 {
			press("\t")
			if eval[bool](p, `document.activeElement.matches(`+quote(selector)+`)`) {
				return
			}
		}
		t.Fatalf("the keyboard does not reach %s", selector)
	}
	p.await(`document.activeElement.id === "browse-title"`)
	tabTo(folders)
	press("\r")
	p.awaitTexts(folders, "shop/\n8", "cart/\n2", "payment/\n2", "search/\n2", "stock/\n2")
	press("\t")
	press("\r")
	p.awaitTexts(keys, "limits-prod", "limits-test")
	tabTo(keys)
	if !eval[bool](p, `getComputedStyle(document.activeElement).outlineStyle === "solid"`) {
		t.Error("the focus is not visible")
	}
	press("\r")
	p.awaitText("#object-value", `"rps": 100`)
	p.await(`document.activeElement.id === "object-title"`)
	press("\x1b")
	p.await(`document.activeElement.dataset.path === "shop/cart/limits-prod"`)
}
