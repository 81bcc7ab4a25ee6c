package browser

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"
)

// gate lets through who has the token, as long as it is open.
type gate struct {
	http.Handler
	token  string
	denied atomic.Bool // everything but the page is forbidden
}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	refuse := func(status, code int, message string) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"code": %d, "message": %q}`, code, message)
	}
	switch {
	case !strings.HasPrefix(r.URL.Path, "/v1/"):
	case r.Header.Get("Authorization") != "Bearer "+g.token:
		refuse(http.StatusUnauthorized, 16, "who are you?")
		return
	case g.denied.Load():
		refuse(http.StatusForbidden, 7, "this is not for you")
		return
	}
	g.Handler.ServeHTTP(w, r)
}

// Who is refused is told, and can give a token, which is kept in the tab alone.
func TestTokens(t *testing.T) {
	s := start(t)
	s.fill(t)
	target, err := url.Parse(s.url)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.FlushInterval = -1
	transport := &http.Transport{}
	proxy.Transport = transport
	g := &gate{Handler: proxy, token: "sesame"}
	front := httptest.NewServer(g)
	t.Cleanup(func() {
		front.CloseClientConnections()
		front.Close()
		transport.CloseIdleConnections()
	})

	p := open(t, front.URL+"/", desktop)
	p.awaitText("#freshness", "No answer yet")
	p.awaitText("#resources-error", "who are you?")
	p.awaitText("#watchers-error", "who are you?")
	p.await(`!document.getElementById("token").hidden`)
	p.write("#token-text", "wrong")
	p.await(`sessionStorage.getItem("fanoutd-token") === "wrong"`)
	p.await(`!document.getElementById("token").hidden`)
	p.write("#token-text", "sesame")
	p.awaitText("#freshness", "Live")
	p.await(`document.getElementById("token").hidden && document.getElementById("token-text").value === ""`)
	p.follow("config")
	s.put(t, "config", "new", "1")
	p.awaitTexts(tailKeys, "new")
	if kept := eval[string](p, `JSON.stringify([{...localStorage}, document.cookie, location.href])`); strings.Contains(kept, "sesame") {
		t.Errorf("the token is in %s", kept)
	}

	// After a reload it is still there; who may not see it any more is told.
	p.do("reload", chromedp.Reload())
	p.awaitText("#freshness", "Live")
	g.denied.Store(true)
	p.awaitText("#freshness", "Stale")
	p.awaitText("#resources-error", "this is not for you")
	g.denied.Store(false)
	p.awaitText("#freshness", "Live")
	p.click("#token-forget") // the form was opened, because another token might have helped
	p.awaitText("#resources-error", "who are you?")
	p.await(`sessionStorage.length === 0`)
}
