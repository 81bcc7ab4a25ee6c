package browser

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/fanoutd/fanoutd/client"
	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// inform runs an informer of the resource config, until the test ends.
func (s *site) inform(t *testing.T, instance, userAgent string, handle func(*client.Object) error, selected ...client.InformerOption) {
	t.Helper()
	c, err := client.New(s.cfg.Listen, client.WithSubscriber(instance, nil), client.WithUserAgent(userAgent))
	if err != nil {
		t.Fatal(err)
	}
	inf := client.NewInformer(c.Resource("config"), client.ObjectDecoder(), selected...)
	inf.AddHandler(client.Handler[*client.Object]{
		Add:    func(i client.Item[*client.Object]) error { return handle(i.Object) },
		Update: func(_, i client.Item[*client.Object]) error { return handle(i.Object) },
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- inf.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-ended
		c.Close()
	})
}

func accept(*client.Object) error { return nil }

// TestScreenshots makes pictures for the documentation. It tests nothing, so only `make
// screenshots` runs it. It takes more than a minute, so that the page has some history.
func TestScreenshots(t *testing.T) {
	dir := os.Getenv("FANOUTD_SCREENSHOTS")
	if dir == "" {
		t.Skip("FANOUTD_SCREENSHOTS is not set")
	}
	s := start(t)
	s.fill(t)
	s.inform(t, "cart-7f9c", "cart/2.4.1", accept, client.Prefix("shop/cart"), client.Labels("env=prod"))
	s.watch(t, "search/1.9.0", &fanoutv1.WatchRequest{Resource: "config", Scope: below("shop/search"), Delivery: fanoutv1.Delivery_DELIVERY_LATEST})
	s.inform(t, "stock-59d4", "stock/0.7.3", func(o *client.Object) error {
		if strings.Contains(string(o.Value), `"burst": 80`) {
			return errors.New("burst must not exceed 50")
		}
		return nil
	}, client.Prefix("shop"))
	s.watch(t, "payment/3.0.2", &fanoutv1.WatchRequest{Resource: "flags", FieldSelector: "owner=payment"})
	s.watchStuck(t, "billing/1.0.0", "shop/payment/rates", 3)
	wide, narrow := look{width: 1120, height: 1290}, look{width: 375, height: 780, scale: 1.5}
	p := open(t, s.url, wide)
	p.awaitText("#freshness", "Live")
	p.await(`document.querySelectorAll("#tail-resource option").length === 3`)
	for i := range 420 {
		s.put(t, "config", fmt.Sprintf("shop/%s/limits-prod", []string{"cart", "search", "stock"}[i%3]), fmt.Sprintf(`{"rps": %d, "burst": 20}`, 100+i), "env", "prod")
		if i%9 == 0 {
			s.put(t, "flags", "checkout/stock", fmt.Sprintf(`{"owner": "stock", "on": %t}`, i%2 == 0))
		}
		if i == 400 {
			p.follow("config")
			eval[bool](p, `document.activeElement.blur(), document.documentElement.scrollTo(0, 0), true`)
		}
		// Write at a varying rate.
		eval[bool](p, fmt.Sprintf(`new Promise((r) => setTimeout(() => r(true), %d + 180 * Math.random()))`, 20+i%140))
	}
	s.put(t, "config", "shop/search/banner", "Back at noon", "env", "prod")
	s.delete(t, "config", "shop/search/banner")
	s.put(t, "config", "shop/payment/limits-prod", `{"rps": 400, "burst": 80}`, "env", "prod")
	p.awaitText("#tail-events", "shop/payment/limits-prod")
	p.click("#tail-pause")
	p.awaitText("#watchers-failed", "1")
	for _, shot := range []struct {
		name string
		as   look
		top  string // the element at the top
	}{
		{"status", wide, "body"},
		{"status-phone", narrow, "body"},
		{"status-phone-tail", look{width: narrow.width, height: narrow.height, scale: narrow.scale, dark: true}, "#tail"},
	} {
		p.as(shot.as)
		p.await(fmt.Sprint(`innerWidth === `, shot.as.width))
		p.shoot(filepath.Join(dir, shot.name+".png"), shot.top)
	}

	// An object with its watches, and the review of a change.
	p.as(look{width: 1120, height: 900})
	eval[bool](p, `location.hash = "#/config/shop/", true`)
	p.awaitText("#browse-list", "cart/")
	p.click("#browse-list li:nth-child(2) summary")
	p.click(`[data-path="shop/payment/limits-prod"]`)
	p.awaitText("#object-value", "rps")
	p.click("#recent > summary")
	p.awaitText("#recent-state", "change")
	p.click("#recent-list li:first-child summary")
	p.awaitText("#recent-list .diff", "burst") // it moves what is below
	p.click("#receivers > summary")
	p.awaitText("#receivers-list", "stock-59d4")
	p.shoot(filepath.Join(dir, "status-browse.png"), "#browse")
	p.as(narrow)
	p.click("#object-edit")
	p.edit(`{"rps": 400, "burst": 50}`)
	p.shoot(filepath.Join(dir, "status-edit.png"), "#edit")
}

// shoot saves a picture of the window, with an element at the top.
func (p *tab) shoot(file, top string) {
	p.t.Helper()
	eval[bool](p, `document.querySelector(`+quote(top)+`).scrollIntoView(), true`)
	image, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(file, image, 0o644); err != nil {
		p.t.Fatal(err)
	}
}
