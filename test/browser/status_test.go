package browser

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/config"
	"github.com/fanoutd/fanoutd/internal/crypt"
)

// fact returns a value on the card of a resource.
func (p *tab) fact(resource, name string) string {
	p.t.Helper()
	return eval[string](p, `Array.from(document.querySelectorAll("article[aria-label=`+resource+`] dl div")).find((d) => d.firstChild.innerText === `+quote(name)+`).lastChild.innerText`)
}

// awaitFact waits for a value on the card of a resource.
func (p *tab) awaitFact(resource, name, value string) {
	p.t.Helper()
	p.await(`Array.from(document.querySelectorAll("article[aria-label=` + resource + `] dl div")).some((d) => d.firstChild.innerText === ` + quote(name) + ` && d.lastChild.innerText === ` + quote(value) + `)`)
}

// TestResourcesAreThoseOfTheAPI checks that the page shows the same values as the API.
func TestResourcesAreThoseOfTheAPI(t *testing.T) {
	s := start(t)
	s.fill(t)
	s.watch(t, "one", &fanoutv1.WatchRequest{Resource: "config", Scope: below("shop/cart")})
	s.watch(t, "two", &fanoutv1.WatchRequest{Resource: "config", Scope: below("shop/cart")})
	s.watch(t, "three", &fanoutv1.WatchRequest{Resource: "config", LabelSelector: "env=prod"})
	p := open(t, s.url, desktop)
	p.awaitText("#freshness", "Live")
	p.awaitTexts("article h3", "audit", "config", "flags")
	p.awaitTexts("article .badge", "serving", "serving", "serving")

	want := s.resource(t, "config")
	p.awaitFact("config", "Revision", strconv.FormatInt(want.GetPosition().GetRevision(), 10))
	p.awaitFact("config", "Objects", strconv.FormatInt(want.GetObjects(), 10))
	p.awaitFact("config", "Watchers", "3")
	p.awaitFact("config", "Distinct filters", "2")
	p.awaitFact("flags", "Objects", "4")
	p.awaitFact("flags", "Watchers", "0")
	p.awaitFact("audit", "Objects", "–")
	if got, part := p.fact("config", "Window"), fmt.Sprintf("%d changes · ", want.GetWindow().GetChanges()); !strings.HasPrefix(got, part) {
		t.Errorf("window: got %q, want %q", got, part)
	}
	if got := p.fact("config", "Behind etcd"); !strings.Contains(got, " revision") || !strings.Contains(got, " · heard ") {
		t.Errorf("lag to etcd: got %q", got)
	}
	if got := p.texts("#sums dd"); !slices.Equal(got[1:], []string{"12", "3", "2"}) {
		t.Errorf("totals: got %q", got)
	}
	if answer := ask[fanoutv1.ListResourcesResponse](t, s, "v1/resources"); !strings.Contains(p.texts("#server")[0], answer.GetServer().GetId()) {
		t.Errorf("server: got %q, want %v", p.texts("#server"), answer.GetServer())
	}

	// The page shows the rate of changes, and when it drops to zero.
	p.awaitText(`article[aria-label=config] .pace`, "0 changes/s")
	s.put(t, "config", "shop/a", "1")
	p.await(`parseFloat(document.querySelector("article[aria-label=config] .pace strong").innerText) > 0`)
	p.awaitFact("config", "Objects", "9")
	p.awaitText(`article[aria-label=config] .pace`, "0 changes/s")
	p.awaitText(`article[aria-label=audit] .pace`, "not counted")
}

// column returns a column of the table of watchers.
func (p *tab) column(n int) []string {
	p.t.Helper()
	return p.texts(fmt.Sprintf("#watchers-rows tr > :nth-child(%d) > div > :first-child", n))
}

// TestWatchersFurthestBehindFirst checks that the watcher with the largest lag comes first,
// with its scope and its selectors.
func TestWatchersFurthestBehindFirst(t *testing.T) {
	s := start(t)
	s.fill(t)
	s.watch(t, "fast/1", &fanoutv1.WatchRequest{Resource: "config"})
	s.watch(t, "filtered/1", &fanoutv1.WatchRequest{
		Resource: "flags", FieldSelector: "owner=cart", OmitValues: true, Delivery: fanoutv1.Delivery_DELIVERY_LATEST,
	})
	s.watchStuck(t, "stuck/1", "shop/large", 3)
	s.watch(t, "late/1", &fanoutv1.WatchRequest{Resource: "config", Scope: below("shop"), LabelSelector: "env in (prod)"})
	p := open(t, s.url, desktop)
	p.awaitTexts("#watchers-rows .badge", "blocked", "live", "live", "live")
	if got := p.texts("#watchers-rows th small"); !strings.HasPrefix(got[0], "stuck/1") {
		t.Errorf("first watcher: got %q", got[0])
	}
	if got, want := p.column(3), []string{"shop/large", "all objects", "all objects", "shop/…"}; !slices.Equal(got, want) {
		t.Errorf("scopes: got %q, want %q", got, want)
	}
	if got, want := p.texts("#watchers-rows td:nth-child(3) small"), []string{"", "", "fields owner=cart · latest only · no values", "labels env in (prod)"}; !slices.Equal(got, want) {
		t.Errorf("selectors: got %q, want %q", got, want)
	}
	stuck := ask[fanoutv1.ListWatchersResponse](t, s, "v1/watchers?order=ORDER_LAG").GetWatchers()[0]
	if got, want := p.column(5), fmt.Sprintf("%d events", stuck.GetLagEvents()); got[0] != want || got[1] != "none" {
		t.Errorf("lag: got %q, want %s", got, want)
	}
	if got := p.texts("#watchers-rows tr:first-child td:nth-child(5) small")[0]; !strings.HasPrefix(got, "for ") {
		t.Errorf("state: got %q", got)
	}
	if got, want := p.texts("#watchers-rows tr:first-child td:nth-child(7) small")[0], fmt.Sprintf("%d message", stuck.GetMessages()); !strings.HasPrefix(got, want) {
		t.Errorf("sent: got %q, want %s", got, want)
	}

	p.choose("#watchers-resource", "flags")
	p.awaitTexts("#watchers-rows th small", "filtered/1 "+grpcVersion)
	p.click(`[aria-label="Watchers config"]`)
	p.awaitTexts("#watchers-rows tr > :nth-child(2) span", "config", "config", "config")
	p.click("#watchers-rows tr:first-child td:nth-child(3) a")
	p.awaitTexts("#object-title", "shop/large")
	p.choose("#watchers-resource", "audit")
	p.awaitTexts("#watchers-rows tr")
	p.awaitText("#watchers .nothing", "There are no watchers")
}

// TestLagBeyondTheWindow checks how the page shows a lag of which only the minimum is known.
func TestLagBeyondTheWindow(t *testing.T) {
	s := start(t, func(c *config.Config) { c.Resources[0].Window.MinEvents, c.Resources[0].Window.MaxEvents = 4, 4 })
	s.watchStuck(t, "stuck/1", "shop/large", 1)
	for range 8 {
		s.put(t, "config", "shop/other", "1")
	}
	p := open(t, s.url, desktop)
	p.awaitText("#watchers-rows td:nth-child(5) small", "for more than ")
	if got := p.column(5)[0]; got == "none" {
		t.Errorf("lag: got %q", got)
	}
}

// TestWatcherWithoutASnapshotIsFirst checks that a watcher that has not received its
// snapshot yet comes before all others.
func TestWatcherWithoutASnapshotIsFirst(t *testing.T) {
	s := start(t, func(c *config.Config) { c.Resources = c.Resources[:1] })
	s.watchStuck(t, "stuck/1", "shop/large", 3)
	for i := range 4 {
		s.put(t, "config", fmt.Sprint("large/", i), strings.Repeat("x", 300<<10))
	}
	s.begin(t, &fanoutv1.WatchRequest{Resource: "config"},
		grpc.WithUserAgent("new/1"), grpc.WithStaticStreamWindowSize(64<<10), grpc.WithStaticConnWindowSize(64<<10))
	p := open(t, s.url, desktop)
	p.awaitTexts("#watchers-rows .badge", "blocked", "blocked")
	if got := p.texts("#watchers-rows th small"); !strings.HasPrefix(got[0], "new/1") {
		t.Errorf("first watcher: got %q", got)
	}
	if got := p.column(5)[0]; got != "no snapshot yet" {
		t.Errorf("lag: got %q", got)
	}
}

// TestUndecryptableObjectsAreShown checks that the page reports objects that cannot be
// decrypted for as long as there are some.
func TestUndecryptableObjectsAreShown(t *testing.T) {
	dir := t.TempDir()
	// with starts a server over the same data with other keys.
	with := func(keyset string) *site {
		content, _, err := crypt.Create()
		if err != nil {
			t.Fatal(err)
		}
		keyset = filepath.Join(dir, keyset)
		if err := os.WriteFile(keyset, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return start(t, func(c *config.Config) {
			c.DataDir, c.KeysetFile, c.Resources = filepath.Join(dir, "data"), keyset, c.Resources[:1]
		})
	}
	const said = "article[aria-label=config] > p:not([hidden])"
	s := with("first")
	s.put(t, "config", "a", "1")
	s.put(t, "config", "b", "2")
	p := open(t, s.url, desktop)
	p.awaitFact("config", "Objects", "2")
	p.awaitTexts(said)
	s.Stop()
	s = with("second")
	p = open(t, s.url, desktop)
	p.awaitTexts(said, "2 objects cannot be decrypted with the keys of this server", "2 values could not be read so far")
	s.delete(t, "config", "a")
	p.awaitTexts(said, "1 object cannot be decrypted with the keys of this server", "2 values could not be read so far")
}

// TestReportsAreShown checks that the page names the subscriber of each watch, and shows how far
// the subscriber has applied the watch and the error that it has reported. The visitor can leave
// out watches without an error.
func TestReportsAreShown(t *testing.T) {
	s := start(t, func(c *config.Config) { c.Resources = c.Resources[:1] })
	subscribe := func(instance string) (grpc.ServerStreamingClient[fanoutv1.WatchResponse], *fanoutv1.Position) {
		w := s.begin(t, &fanoutv1.WatchRequest{
			Resource: "config", Subscriber: &fanoutv1.Subscriber{Instance: instance, Labels: map[string]string{"version": "2.4"}},
		}, grpc.WithUserAgent("shop/1"))
		for {
			m, err := w.Recv()
			if err != nil {
				t.Fatal(err)
			}
			if m.GetKind() == fanoutv1.WatchResponse_KIND_SYNCED {
				return w, m.GetPosition()
			}
		}
	}
	report := func(w grpc.ServerStreamingClient[fanoutv1.WatchResponse], req *fanoutv1.ReportRequest) {
		t.Helper()
		header, err := w.Header()
		if err != nil {
			t.Fatal(err)
		}
		req.Watch = header.Get("fanout-watch")[0]
		if _, err := fanoutv1.NewFanoutServiceClient(s.conn).Report(t.Context(), req); err != nil {
			t.Fatal(err)
		}
	}
	failing, before := subscribe("failing-1")
	late, _ := subscribe("late-1")
	subscribe("silent-1")
	current, _ := subscribe("current-1")
	s.put(t, "config", "a", "1")
	m, err := current.Recv()
	if err != nil {
		t.Fatal(err)
	}
	report(failing, &fanoutv1.ReportRequest{Applied: before, Error: &status.Status{Code: 3, Message: "rps is <b>negative</b>"}})
	report(late, &fanoutv1.ReportRequest{Applied: before})
	report(current, &fanoutv1.ReportRequest{Applied: m.GetPosition()})

	p := open(t, s.url, desktop)
	p.awaitTexts("#watchers-rows th span", "failing-1", "late-1", "silent-1", "current-1")
	got := p.column(6)
	if got[0] != "failed" || !strings.HasSuffix(got[1], " late") || got[2] != "not reported" || got[3] != "up to date" {
		t.Errorf("applied: got %q", got)
	}
	small := p.texts("#watchers-rows td:nth-child(6) small")
	if want := fmt.Sprint("up to revision ", before.GetRevision()); small[0] != "rps is <b>negative</b>" || small[1] != want {
		t.Errorf("reports: got %q, want the error and %s", small, want)
	}
	if got := p.texts(`#watchers-rows [data-failed="true"] span`); !slices.Equal(got, []string{"failed"}) {
		t.Errorf("marked as failed are %q", got)
	}
	p.click("#watchers-rows th summary")
	p.awaitText("#watchers-rows th details", "version=2.4")
	p.awaitText("#watchers-rows th details", fmt.Sprint("applied up to revision ", before.GetRevision()))
	p.awaitText("#watchers-rows th details", "rps is <b>negative</b>")
	p.awaitText("#watchers-failed", "1")

	p.click("#watchers-failing")
	p.awaitTexts("#watchers-rows th span", "failing-1")
	p.awaitText("#watchers-count", "1, furthest behind first")
	report(failing, &fanoutv1.ReportRequest{Applied: before})
	p.awaitText("#watchers-failed", "0")
	p.awaitTexts("#watchers-rows tr")
	p.awaitText("#watchers .nothing", "No watcher reports an error")
}

// TestManyWatchers checks that the page requests only the watchers that it shows.
func TestManyWatchers(t *testing.T) {
	s := start(t, func(c *config.Config) { c.Resources = c.Resources[:1] })
	for i := range 130 {
		s.begin(t, &fanoutv1.WatchRequest{Resource: "config", Scope: below(fmt.Sprint("team-", i))})
	}
	p := open(t, s.url, desktop)
	p.awaitText("#watchers-count", "20 of 130")
	p.await(`document.querySelectorAll("#watchers-rows tr").length === 20`)
	p.click("#watchers-more")
	p.awaitText("#watchers-count", "100 of 130")
	p.click("#watchers-more")
	p.awaitText("#watchers-count", "130, furthest behind first")
	p.await(`document.querySelector("#watchers-more").hidden`)
	asked := eval[[]string](p, `performance.getEntriesByType("resource").map((e) => e.name).filter((n) => n.includes("/v1/watchers"))`)
	if len(asked) < 3 || !strings.Contains(asked[0], "pageSize=20") || !strings.Contains(asked[0], "order=ORDER_LAG") {
		t.Errorf("got request %q", asked)
	}
}
