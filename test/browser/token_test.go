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

// Who is refused is told, and can give a token, which is kept in the tab alone.
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
	// Who watches is named as the server knows them.
	p.awaitTexts("#watchers-rows th span", "operator")
	if small := p.texts("#watchers-rows th small")[0]; !strings.HasPrefix(small, "127.0.0.1") || !strings.Contains(small, " · Mozilla/") {
		t.Errorf("where the operator is: %q", small)
	}
	if kept := eval[string](p, `JSON.stringify([{...localStorage}, document.cookie, location.href])`); strings.Contains(kept, token) {
		t.Errorf("the token is in %s", kept)
	}

	// After a reload it is still there; who may not see it any more is told.
	p.do("reload", chromedp.Reload())
	p.awaitText("#freshness", "Live")
	allow("get, put")
	p.awaitText("#freshness", "Stale")
	p.awaitText("#resources-error", "may not")
	allow("'*'")
	p.awaitText("#freshness", "Live")
	p.click("#token-forget") // the form was opened, because another token might have helped
	p.awaitText("#resources-error", "no credentials")
	p.await(`sessionStorage.length === 0`)
}
