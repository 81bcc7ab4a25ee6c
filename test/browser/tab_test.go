package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/fanoutd/fanoutd/test/poll"
)

// tab is a tab in its own browser.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu         sync.Mutex
	complaints []string // guarded by mu: errors that the browser reported
}

// look is the window and the preferences of a viewer.
type look struct {
	width, height int64 // of the window, in CSS pixels
	dark          bool
	scale         float64 // device pixels per CSS pixel; default 1
}

var (
	desktop = look{width: 1280, height: 900}
	phone   = look{width: 320, height: 568}
)

// open opens an address. At the end of the test it fails if the browser reported an error,
// except for missing resources.
func open(t *testing.T, url string, as look) *tab {
	t.Helper()
	program, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatalf("%v; test/browser/install installs it", err)
	}
	options := []chromedp.ExecAllocatorOption{chromedp.ExecPath(program)}
	if os.Getuid() == 0 {
		options = append(options, chromedp.NoSandbox) // Chromium has no sandbox for root
	}
	p := &tab{t: t}
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx, chromedp.WithAllocatorOptions(options...), chromedp.WithListener(p.hear))
	t.Cleanup(cancel)
	p.ctx = ctx
	p.as(as)
	p.do("open "+url, chromedp.Navigate(url))
	t.Cleanup(func() {
		if t.Failed() {
			return
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, c := range p.complaints {
			t.Errorf("the browser reports: %s", c)
		}
	})
	return p
}

// hear collects the browser's reports: script errors, violations of the content security
// policy, and console output.
func (p *tab) hear(event any) {
	complain := func(format string, args ...any) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.complaints = append(p.complaints, fmt.Sprintf(format, args...))
	}
	switch e := event.(type) {
	case *log.EventEntryAdded:
		// Failed requests appear here too; the page shows them itself.
		if e.Entry.Source != log.EntrySourceNetwork {
			complain("%s: %s %s", e.Entry.Source, e.Entry.Text, e.Entry.URL)
		}
	case *runtime.EventExceptionThrown:
		text, _ := json.Marshal(e.ExceptionDetails)
		complain("exception: %s", text)
	case *runtime.EventConsoleAPICalled:
		text, _ := json.Marshal(e.Args)
		complain("console: %s", text)
	}
}

// allowComplaints forgets the reports that contain a text.
func (p *tab) allowComplaints(about string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.complaints = slices.DeleteFunc(p.complaints, func(c string) bool { return strings.Contains(c, about) })
}

func (p *tab) do(what string, actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, poll.Patience)
	defer cancel()
	if p.ctx.Err() == nil && chromedp.FromContext(p.ctx).Target == nil {
		ctx = p.ctx // the context of the first action bounds the browser's life
	}
	if err := chromedp.Do(ctx, actions...); err != nil {
		p.t.Fatalf("%s: %v", what, err)
	}
}

// as changes the window and the preferences.
func (p *tab) as(as look) {
	p.t.Helper()
	scheme := map[bool]string{false: "light", true: "dark"}[as.dark]
	media := func(ctx context.Context, target *chromedp.Target) (chromedp.Void, error) {
		_, err := cdp.Call(ctx, target, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"}},
		})
		return chromedp.Void{}, err
	}
	options := []chromedp.EmulateViewportOption{chromedp.EmulateScale(max(as.scale, 1))}
	if as.width < 600 {
		options = append(options, chromedp.EmulateMobile, chromedp.EmulateTouch)
	}
	p.do("look", chromedp.EmulateViewport(as.width, as.height, options...), media)
}

// eval returns the value of a JavaScript expression or promise.
func eval[T any](p *tab, expression string) T {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, poll.Patience)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		p.t.Fatalf("%s: %v\n%s", expression, err, p.text())
	}
	return v
}

// text returns the visible text.
func (p *tab) text() string {
	text, err := chromedp.Run(p.ctx, chromedp.Evaluate[string]("document.body.innerText"))
	if err != nil {
		return fmt.Sprint("the text of the page is not known: ", err)
	}
	return text
}

// await waits until a condition holds in the page.
func (p *tab) await(condition string) {
	p.t.Helper()
	eval[bool](p, `new Promise((resolve) => {
		const look = () => { if (`+condition+`) resolve(true); else setTimeout(look, 20); };
		look();
	})`)
}

// quote returns a text as a JavaScript literal.
func quote(text string) string {
	b, err := json.Marshal(text)
	if err != nil {
		panic(err) // texts marshal
	}
	return string(b)
}

// texts returns the visible texts of the elements that a CSS selector matches.
func (p *tab) texts(selector string) []string {
	p.t.Helper()
	return eval[[]string](p, `Array.from(document.querySelectorAll(`+quote(selector)+`), (n) => n.innerText.trim())`)
}

// awaitTexts waits until the elements that a selector matches have these texts.
func (p *tab) awaitTexts(selector string, want ...string) {
	p.t.Helper()
	list, err := json.Marshal(append([]string{}, want...))
	if err != nil {
		p.t.Fatal(err)
	}
	p.await(`JSON.stringify(Array.from(document.querySelectorAll(` + quote(selector) + `), (n) => n.innerText.trim())) === JSON.stringify(` + string(list) + `)`)
}

// awaitText waits until an element contains a text.
func (p *tab) awaitText(selector, part string) {
	p.t.Helper()
	p.await(`document.querySelector(` + quote(selector) + `)?.innerText.includes(` + quote(part) + `)`)
}

// write types into a field and presses Enter.
func (p *tab) write(selector, text string) {
	p.t.Helper()
	eval[bool](p, `document.querySelector(`+quote(selector)+`).value = "", true`)
	p.do("write into "+selector, chromedp.SendKeys(chromedp.CSS(selector), text+"\r", chromedp.NodeVisible))
}

// choose chooses an option.
func (p *tab) choose(selector, option string) {
	p.t.Helper()
	chosen := eval[string](p, `(() => {
		const s = document.querySelector(`+quote(selector)+`);
		s.value = `+quote(option)+`;
		s.dispatchEvent(new Event("change", { bubbles: true }));
		return s.value;
	})()`)
	if chosen != option {
		p.t.Fatalf("%s has no option %s, only %s", selector, option, strings.Join(p.texts(selector+" option"), ", "))
	}
}
