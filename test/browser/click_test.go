package browser

import (
	"context"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/fanoutd/fanoutd/test/poll"
)

// click clicks at the position of the element. The page may move, or something may lie on the
// element, between the look at its position and the click: what would not hit the element is stopped
// before the page hears it, and the click is made again.
func (p *tab) click(selector string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, poll.Patience)
	defer cancel()
	for ctx.Err() == nil {
		eval[bool](p, `(() => {
			window.aim?.end.abort();
			const aim = window.aim = { end: new AbortController(), hit: false };
			for (const type of ["mousedown", "mouseup", "click"]) {
				window.addEventListener(type, (e) => {
					if (aim.hit) return; // the click of a label is followed by that of its field
					if (document.querySelector(`+quote(selector)+`)?.contains(e.target)) {
						aim.hit = type === "click";
						return;
					}
					e.preventDefault();
					e.stopImmediatePropagation();
				}, { capture: true, signal: aim.end.signal });
			}
			return true;
		})()`)
		p.do("click "+selector, chromedp.Click(chromedp.CSS(selector), chromedp.NodeVisible))
		// A click that loads another page leaves no aim behind.
		if eval[bool](p, `(() => { const { aim } = window; aim?.end.abort(); return aim?.hit ?? true; })()`) {
			return
		}
	}
	p.t.Fatalf("no click has hit %s\n%s", selector, p.text())
}

// TestClickHitsWhatItNames checks that a click on something that lies on an element for a moment is
// heard by neither, and that the element is clicked afterwards.
func TestClickHitsWhatItNames(t *testing.T) {
	s := start(t)
	p := open(t, s.url, desktop)
	eval[bool](p, `(() => {
		window.heard = [];
		for (const id of ["below", "above"]) {
			const b = document.createElement("button");
			b.id = id;
			b.style = "position: fixed; inset: 0; z-index: 9";
			b.textContent = id;
			b.addEventListener("click", () => window.heard.push(id));
			document.body.append(b);
		}
		// Before the click's own listener, which then sees that the wrong button was hit.
		window.addEventListener("mouseup", () => document.getElementById("above")?.remove(), true);
		return true;
	})()`)
	p.click("#below")
	if got := eval[[]string](p, `window.heard`); len(got) != 1 || got[0] != "below" {
		t.Errorf("got clicks on %v, want one on below", got)
	}
}
