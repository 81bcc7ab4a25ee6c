package browser

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/fanoutd/fanoutd/internal/access"
	"github.com/fanoutd/fanoutd/internal/config"
	"github.com/fanoutd/fanoutd/test/certs"
)

// TestTokens checks that a refused user can enter a token, and that the page keeps it in
// this tab only.
func TestTokens(t *testing.T) {
	tokens, policy := filepath.Join(t.TempDir(), "tokens"), filepath.Join(t.TempDir(), "policy.yaml")
	token, line, err := access.NewToken("operator", nil)
	if err != nil {
		t.Fatal(err)
	}
	certs.Write(t, tokens, []byte(line))
	allow := func(verbs string) {
		certs.Write(t, policy, []byte("rules:\n- {subjects: [operator], verbs: ["+verbs+"], resources: ['*']}\n"))
	}
	allow("'*'")
	s := startFor(t, bearer(token), func(cfg *config.Config) { cfg.TokenFile, cfg.PolicyFile = tokens, policy })
	s.fill(t)

	p := open(t, s.url, desktop)
	p.awaitText("#freshness", "No answer yet")
	p.awaitText("#resources-error", "no credentials")
	p.awaitText("#watchers-error", "no credentials")
	p.await(`!document.getElementById("token").hidden`)
	p.write("#token-text", "wrong")
	p.await(`sessionStorage.getItem("fanoutd-token") === "wrong"`)
	p.await(`!document.getElementById("token").hidden`)
	p.write("#token-text", token)
	p.awaitText("#freshness", "Live")
	p.await(`document.getElementById("token").hidden && document.getElementById("token-text").value === ""`)
	p.follow("config")
	s.put(t, "config", "new", "1")
	p.awaitTexts(tailKeys, "new")
	// Watchers have the names that the server identified.
	p.awaitTexts("#watchers-rows th span", "operator")
	if small := p.texts("#watchers-rows th small")[0]; !strings.HasPrefix(small, "127.0.0.1") || !strings.Contains(small, " · Mozilla/") {
		t.Errorf("operator: got %q", small)
	}
	if kept := eval[string](p, `JSON.stringify([{...localStorage}, document.cookie, location.href])`); strings.Contains(kept, token) {
		t.Errorf("got the token in %s", kept)
	}

	// The token survives a reload. A user who loses access sees an error.
	p.do("reload", chromedp.Reload())
	p.awaitText("#freshness", "Live")
	allow("get, put")
	p.awaitText("#freshness", "Stale")
	p.awaitText("#resources-error", "may not")
	allow("'*'")
	p.awaitText("#freshness", "Live")
	p.click("#token-forget") // the form is open, because another token might help
	p.awaitText("#resources-error", "no credentials")
	p.await(`sessionStorage.length === 0`)
}
