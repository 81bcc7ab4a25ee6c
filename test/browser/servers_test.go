package browser

import (
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"google.golang.org/grpc"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/access"
	"github.com/fanoutd/fanoutd/internal/config"
	"github.com/fanoutd/fanoutd/test/certs"
	"github.com/fanoutd/fanoutd/test/loopback"
)

// TestOneServer checks that the page says that it shows only one server.
func TestOneServer(t *testing.T) {
	s := start(t)
	p := open(t, s.url, desktop)
	p.awaitText("#servers-note", "This page shows one server, "+s.cfg.AdminListen)
	p.await(`document.getElementById("servers").hidden`)
}

// TestAllServers checks that the page of one server shows the watchers of all servers over the same etcd, with
// the token of the visitor, and says which servers do not answer.
func TestAllServers(t *testing.T) {
	tokens, policy := filepath.Join(t.TempDir(), "tokens"), filepath.Join(t.TempDir(), "policy.yaml")
	token, line, err := access.NewToken("operator", nil)
	if err != nil {
		t.Fatal(err)
	}
	certs.Write(t, tokens, []byte(line))
	certs.Write(t, policy, []byte("rules:\n- {subjects: [operator], verbs: ['*'], resources: ['*']}\n"))
	etcd, gone := loopback.FreeAddress(t), loopback.FreeAddress(t)
	addresses := []string{loopback.FreeAddress(t), loopback.FreeAddress(t)}
	origins := []string{"http://" + addresses[0], "http://" + addresses[1], "http://" + gone}
	common := func(c *config.Config, address string) {
		c.AdminListen, c.StatusPageServers, c.TokenFile, c.PolicyFile = address, origins, tokens, policy
	}
	first := startFor(t, bearer(token), func(c *config.Config) {
		common(c, addresses[0])
		c.EmbeddedEtcdListen = etcd
	})
	second := startFor(t, bearer(token), func(c *config.Config) {
		common(c, addresses[1])
		c.EtcdEndpoints, c.DataDir, c.EmbeddedEtcdUnsafe = []string{etcd}, config.Defaults().DataDir, false
	})
	first.put(t, "config", "shop/a", "1")
	for _, on := range []struct {
		s        *site
		instance string
	}{{first, "here-1"}, {second, "there-1"}, {second, "there-2"}} {
		on.s.begin(t, &fanoutv1.WatchRequest{
			Resource: "config", Scope: below("shop"), Subscriber: &fanoutv1.Subscriber{Instance: on.instance},
		}, grpc.WithPerRPCCredentials(bearer(token)))
	}

	p := open(t, first.url, desktop)
	p.write("#token-text", token)
	p.awaitTexts("#servers .badge", "serving", "serving", "no answer")
	if got, want := p.texts("#servers li > :nth-child(2)"), []string{addresses[0], addresses[1], gone}; !slices.Equal(got, want) {
		t.Errorf("got the servers %q, want %q", got, want)
	}
	p.awaitText("#servers li:nth-child(1)", "this server · 1 watcher")
	p.awaitText("#servers li:nth-child(2)", "2 watchers")
	p.awaitText("#servers li:nth-child(3)", "cannot be reached")
	p.awaitText("#servers-note", "Watchers are those of all servers that answer. Everything else is as "+addresses[0]+" has it.")
	p.await(`document.querySelectorAll("#watchers-rows tr").length === 3`)
	got := p.texts("#watchers-rows th span")
	slices.Sort(got)
	if want := []string{"here-1", "there-1", "there-2"}; !slices.Equal(got, want) {
		t.Errorf("got the watchers %q, want %q", got, want)
	}
	servers := p.texts("#watchers-rows td:nth-child(2) small")
	slices.Sort(servers)
	if want := slices.Sorted(slices.Values([]string{addresses[0], addresses[1], addresses[1]})); !slices.Equal(servers, want) {
		t.Errorf("got the servers of the watchers %q, want %q", servers, want)
	}
	p.awaitText("#watchers-count", "3, furthest behind first")
	p.awaitTexts("#sums div:nth-child(3) dd", "3")
	eval[bool](p, `location.hash = "#/config/shop/a", true`)
	p.awaitText("#object-value", "1")
	p.click("#receivers > summary")
	p.awaitText("#receivers-state", "3 watches of 2 servers")

	p.fits()
	p.as(desktop)

	// A server that stops is shown as such, and its watchers are gone.
	second.Stop()
	p.awaitTexts("#servers .badge", "serving", "no answer", "no answer")
	p.awaitTexts("#watchers-rows th span", "here-1")
	second.Start(t)
	p.awaitTexts("#servers .badge", "serving", "serving", "no answer")

	// Under another address of the same server, the server is not shown twice. The others let only pages of
	// listed addresses read their status.
	_, port, err := net.SplitHostPort(addresses[0])
	if err != nil {
		t.Fatal(err)
	}
	link := loopback.NewLink(t, addresses[0])
	p = open(t, "http://"+link.Address+"/", desktop)
	p.write("#token-text", token)
	p.awaitText("#servers li:first-child", "this server")
	p.awaitTexts("#servers .badge", "serving", "no answer", "no answer", "no answer")
	if names := strings.Join(p.texts("#servers li > :nth-child(2)"), " "); !strings.HasPrefix(names, link.Address) || !strings.Contains(names, port) {
		t.Errorf("got the servers %s", names)
	}
	p.allowComplaints("CORS")
	p.do("leave", chromedp.Navigate("about:blank"))
}
