package browser

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/chromedp"

	"github.com/fanoutd/fanoutd/client"
	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/config"
)

// TestPhone checks that the page fits on a phone, even with long names and values.
func TestPhone(t *testing.T) {
	s := start(t)
	s.fill(t)
	long := strings.Repeat("averylongname", 12)
	s.watch(t, long+"/1", &fanoutv1.WatchRequest{Resource: "config", Scope: below(long), LabelSelector: long[:60] + "=x"})
	s.watchStuck(t, "stuck/1", "shop/large", 2)
	p := open(t, s.url, phone)
	p.follow("config")
	s.put(t, "config", long+"/"+long, strings.Repeat("x", 2000))
	p.awaitText("#tail-events", long)
	p.click("#tail-events summary")
	p.awaitText("#tail-events pre", "xxx")
	p.click("#token-open")
	p.await(`!document.getElementById("token").hidden`)
	p.fits()
	p.write("#tail-labels", long+"(")
	p.awaitText("#tail-error", "label_selector")
	p.fits()
	small := eval[[]string](p, `Array.from(document.querySelectorAll("button, input, select"))
		.filter((n) => n.getClientRects().length && n.getBoundingClientRect().height < 32).map((n) => n.outerHTML)`)
	for _, n := range small {
		t.Errorf("%s is too small to touch", n)
	}
}

// TestFirstScreen checks that the first screen of a server with one resource shows the resource in its whole width, and
// the watchers.
func TestFirstScreen(t *testing.T) {
	s := start(t, func(c *config.Config) { c.Resources = c.Resources[:1] })
	s.watch(t, "one/1", &fanoutv1.WatchRequest{Resource: "config"})
	p := open(t, s.url, look{width: 1280, height: 800})
	p.await(`document.querySelectorAll("#watchers-rows tr").length === 1`)
	if got := eval[float64](p, `document.querySelector("article").getBoundingClientRect().width`); got < 1000 {
		t.Errorf("the card of the only resource is %v wide", got)
	}
	if got := eval[float64](p, `document.querySelector("#watchers-rows tr").getBoundingClientRect().bottom`); got > 800 {
		t.Errorf("the first watcher ends at %v, below the first screen", got)
	}
}

// TestWatcherCardsOnAPhone checks that several watchers fit on the screen of a phone, and that their errors are not cut
// off.
func TestWatcherCardsOnAPhone(t *testing.T) {
	s := start(t)
	message := strings.Repeat("the pool of the payment service has only so many connections; ", 5)
	s.inform(t, "stock-59d4", "stock/0.7.3", func(*client.Object) error { return errors.New(message) })
	s.inform(t, "cart-7f9c", "cart/2.4.1", accept)
	s.put(t, "config", "a", "1")
	p := open(t, s.url, look{width: 390, height: 844})
	p.awaitText("#watchers-failed", "1")
	p.awaitText(`#watchers-rows [data-failed="true"] small`, message[len(message)-20:])
	if cut := eval[bool](p, `((n) => n.scrollHeight > n.clientHeight + 1 || n.scrollWidth > n.clientWidth + 1)(document.querySelector('#watchers-rows [data-failed="true"] small'))`); cut {
		t.Error("the error is cut off")
	}
	heights := eval[[]float64](p, `Array.from(document.querySelectorAll("#watchers-rows tr:not(:has([data-failed=true]))"), (n) => n.offsetHeight)`)
	if len(heights) != 1 || heights[0] > 180 {
		t.Errorf("the cards of watchers without an error are %v high", heights)
	}
}

// fits checks that the page fits into narrow windows.
func (p *tab) fits() {
	p.t.Helper()
	for _, width := range []int64{320, 390, 768} {
		p.as(look{width: width, height: 740})
		p.await(fmt.Sprint(`innerWidth === `, width))
		if got := eval[int64](p, `document.scrollingElement.scrollWidth`); got > width {
			p.t.Errorf("at width %d the page is %d wide", width, got)
		}
		// Nothing is cut off at the side, or needs scrolling to be read.
		moved := eval[[]string](p, `Array.from(document.querySelectorAll(".events, .table, .list, pre, form"))
			.filter((n) => n.scrollWidth > n.clientWidth).map((n) => n.className || n.localName)`)
		for _, n := range moved {
			p.t.Errorf("at width %d one has to scroll in %s", width, n)
		}
		over := eval[[]string](p, `Array.from(document.querySelectorAll("body *"))
			.filter((n) => n.getClientRects().length && n.getBoundingClientRect().right > innerWidth + 1 && !n.closest("summary, th, .unseen, thead, pre, svg"))
			.map((n) => n.outerHTML.slice(0, 100))`)
		for _, n := range over {
			p.t.Errorf("at width %d this is cut off: %s", width, n)
		}
	}
}

func TestDark(t *testing.T) {
	s := start(t)
	p := open(t, s.url, desktop)
	p.awaitText("#freshness", "Live")
	// brightness returns the brightness of a color such as rgb(14, 18, 23), from 0 to 255.
	brightness := func(property string) float64 {
		return eval[float64](p, `((c) => (c[0] * 2 + c[1] * 5 + c[2]) / 8)(getComputedStyle(document.body).`+property+`.match(/[0-9.]+/g).map(Number))`)
	}
	if ground, ink := brightness("backgroundColor"), brightness("color"); ground < 200 || ink > 80 {
		t.Errorf("light mode: got background %v and text %v", ground, ink)
	}
	p.as(look{width: desktop.width, height: desktop.height, dark: true})
	if ground, ink := brightness("backgroundColor"), brightness("color"); ground > 60 || ink < 180 {
		t.Errorf("dark mode: got background %v and text %v", ground, ink)
	}
}

// TestAccessibility checks that the page works with a screen reader and without a mouse:
// controls have names, tables have headers, and only short states are announced.
func TestAccessibility(t *testing.T) {
	s := start(t)
	s.fill(t)
	s.watch(t, "one/1", &fanoutv1.WatchRequest{Resource: "config"})
	p := open(t, s.url, desktop)
	p.follow("config")
	s.put(t, "config", "a", "1")
	p.awaitTexts(tailKeys, "a")
	tree, err := chromedp.Run(p.ctx, func(ctx context.Context, target *chromedp.Target) (accessibility.GetFullAXTreeResult, error) {
		return cdp.Call(ctx, target, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
	})
	if err != nil {
		t.Fatal(err)
	}
	roles := map[string]int{}
	for _, n := range tree.Nodes {
		if n.Ignored || n.Role == nil {
			continue
		}
		role := strings.Trim(string(n.Role.Value), `"`)
		roles[role]++
		touched := []string{"button", "textbox", "combobox", "link", "heading", "columnheader", "rowheader", "DisclosureTriangle", "article", "table", "region"}
		if slices.Contains(touched, role) && (n.Name == nil || strings.Trim(string(n.Name.Value), `"`) == "") {
			t.Errorf("got a %s without a name", role)
		}
	}
	for role, least := range map[string]int{"heading": 7, "table": 1, "columnheader": 7, "rowheader": 1, "textbox": 3, "combobox": 2, "article": 3, "main": 1, "status": 1} {
		if roles[role] < least {
			t.Errorf("got %d %s, want at least %d", roles[role], role, least)
		}
	}
	// Reach the form of the tail from the first button with the keyboard only.
	eval[bool](p, `document.activeElement.blur(), document.querySelector("#token-open").focus(), true`)
	reached := []string{}
	for range 60 {
		p.do("press Tab", chromedp.KeyEvent("\t"))
		id := eval[string](p, `document.activeElement.closest("#tail-events li") ? "event" : document.activeElement.id || document.activeElement.localName`)
		if reached = append(reached, id); id == "event" {
			break
		}
	}
	for _, id := range []string{"watchers-resource", "tail-resource", "tail-prefix", "tail-stop", "tail-pause", "tail-events", "event"} {
		if !slices.Contains(reached, id) {
			t.Errorf("the keyboard does not reach %s, only %q", id, reached)
		}
	}
}
