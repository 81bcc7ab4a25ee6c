package browser

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/fanoutd/fanoutd/internal/access"
	"github.com/fanoutd/fanoutd/internal/config"
	"github.com/fanoutd/fanoutd/test/certs"
	"github.com/fanoutd/fanoutd/test/loopback"
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
	p.awaitText("#freshness", "Token needed")
	p.awaitText("#resources-error", "no credentials")
	p.awaitText("#watchers-error", "no credentials")
	p.await(`!document.getElementById("token").hidden`)
	p.write("#token-text", "wrong")
	p.await(`sessionStorage.getItem("fanoutd-token") === "wrong"`)
	p.awaitText("#freshness", "Token refused")
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
	p.awaitText("#freshness", "Missing rights")
	p.awaitText("#resources-error", `"operator" may not administer all resources`)
	if n := len(p.texts("article")) + len(p.texts("#watchers-rows tr")); n > 0 {
		t.Errorf("%d things are still shown that the user may not see any more", n)
	}
	allow("'*'")
	p.awaitText("#freshness", "Live")
	p.awaitTexts("article h3", "audit", "config", "flags")
	p.click("#token-forget") // the form is open, because another token might help
	p.awaitText("#resources-error", "no credentials")
	p.await(`sessionStorage.length === 0`)
}

// TestATokenClearsWhatTheOneBeforeHasShown checks that nothing that only the old token may see stays on the page:
// no resources, watchers, keys, values, histories, events or names, even while the server does not answer.
func TestATokenClearsWhatTheOneBeforeHasShown(t *testing.T) {
	tokens, policy := filepath.Join(t.TempDir(), "tokens"), filepath.Join(t.TempDir(), "policy.yaml")
	var lines, secrets []string
	for _, name := range []string{"operator", "guest"} {
		secret, line, err := access.NewToken(name, nil)
		if err != nil {
			t.Fatal(err)
		}
		lines, secrets = append(lines, line), append(secrets, secret)
	}
	certs.Write(t, tokens, []byte(strings.Join(lines, "\n")))
	certs.Write(t, policy, []byte("rules:\n- {subjects: [operator], verbs: ['*'], resources: ['*']}\n- {subjects: [guest], verbs: [get], resources: [flags]}\n"))
	s := startFor(t, bearer(secrets[0]), func(cfg *config.Config) { cfg.TokenFile, cfg.PolicyFile = tokens, policy })
	s.put(t, "config", "secret/key", "secret value", "secret", "label")
	link := loopback.NewLink(t, s.cfg.AdminListen)
	for _, away := range []bool{false, true} {
		p := open(t, "http://"+link.Address+"/", desktop)
		p.write("#token-text", secrets[0])
		p.awaitText("#freshness", "Live")
		p.follow("config")
		s.put(t, "config", "secret/key", "secret value", "secret", "label")
		p.awaitTexts(tailKeys, "secret/key")
		p.click("#tail-stop")
		p.awaitText("#tail-state", "Stopped")
		eval[bool](p, `location.hash = "#/config/secret/key", true`)
		p.awaitText("#object-value", "secret value")
		p.click("#recent > summary")
		p.awaitText("#recent-list", "modified")
		p.click("#receivers > summary")
		p.awaitText("#receivers-state", "of this server")
		p.click("#token-open")
		if away {
			link.Freeze() // no answer comes, neither one for the new token nor a late one for the old one
		}
		p.write("#token-text", secrets[1])
		if !away {
			p.awaitText("#freshness", "Missing rights")
			p.awaitText("#object-error", "may not get")
			p.awaitText("#resources-error", `"guest" may not administer all resources`)
		}
		p.await(`document.querySelectorAll("article, #watchers-rows tr, #sums div, #browse-list li, #tail-events li, #recent-list li, #receivers-list li").length === 0`)
		p.awaitTexts("#tail-resource option, #watchers-resource option[data-key]")
		text := eval[string](p, `document.querySelector("header").textContent + document.querySelector("main").textContent`)
		for _, left := range []string{"secret value", "secret=label", "audit", "modified", "revision 4", " · up "} {
			if strings.Contains(text, left) {
				t.Errorf("away %v: the page still has %q:\n%s", away, left, text)
			}
		}
		link.Thaw()
	}
}
