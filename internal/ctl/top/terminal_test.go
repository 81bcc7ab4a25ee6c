package top

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gdamore/tcell/v3"
	"github.com/gdamore/tcell/v3/color"
	"github.com/gdamore/tcell/v3/vt"
	"go.uber.org/goleak"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/internal/ctl/admin"
	"github.com/fanoutd/fanoutd/internal/ctl/output"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// terminal is a terminal that records its input.
type terminal struct {
	vt.MockTerm
	mu      sync.Mutex // guards written
	written strings.Builder
}

func newTerminal() *terminal {
	return &terminal{MockTerm: vt.NewMockTerm(vt.MockOptSize(vt.Coord{X: 40, Y: 5}), vt.MockOptColors(256))}
}

func (t *terminal) Write(p []byte) (int, error) {
	t.mu.Lock()
	t.written.Write(p)
	t.mu.Unlock()
	return t.MockTerm.Write(p)
}

// isRestored reports whether the alternate screen was entered and left again, and the cursor
// hidden and shown again.
func (t *terminal) isRestored() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := t.written.String()
	for _, pair := range [][2]string{{"\x1b[?1049h", "\x1b[?1049l"}, {"\x1b[?25l", "\x1b[?25h"}} {
		if !strings.Contains(all, pair[0]) || strings.LastIndex(all, pair[1]) < strings.LastIndex(all, pair[0]) {
			return false
		}
	}
	return true
}

// program returns a Program with one server, which cannot be reached.
func program(t *testing.T, explain func(string, error) string) *Program {
	t.Helper()
	c, err := client.New("127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return &Program{Servers: []*admin.Admin{admin.New("a:1", c)}, Interval: time.Hour, Explain: explain}
}

// The terminal is restored however top ends.
func TestTerminalIsRestored(t *testing.T) {
	ends := map[string]func(*terminal, context.CancelFunc){
		"context": func(_ *terminal, cancel context.CancelFunc) { cancel() },
		"q":       func(term *terminal, _ context.CancelFunc) { term.KeyTap(vt.KeyQ) },
		"Esc":     func(term *terminal, _ context.CancelFunc) { term.KeyTap(vt.KeyEsc) },
		"Ctrl-C":  func(term *terminal, _ context.CancelFunc) { term.KeyTap(vt.KeyLCtrl, vt.KeyC) },
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			term := newTerminal()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			shown := make(chan struct{}, 100)
			p := program(t, func(server string, _ error) string {
				shown <- struct{}{}
				return server + " is down"
			})
			done := make(chan error)
			go func() { done <- p.run(ctx, term) }()
			<-shown
			end(term, cancel)
			if err := <-done; err != nil {
				t.Error(err)
			}
			if !term.isRestored() {
				t.Errorf("the terminal received %q", term.written.String())
			}
		})
	}
	t.Run("panic", func(t *testing.T) {
		term := newTerminal()
		defer func() {
			if r := recover(); r != "a bug" || !term.isRestored() {
				t.Errorf("recovered %v; the terminal received %q", r, term.written.String())
			}
		}()
		_ = program(t, func(string, error) string { panic("a bug") }).run(t.Context(), term)
	})
	t.Run("panic elsewhere", func(t *testing.T) {
		term := newTerminal()
		screen, err := tcell.NewTerminfoScreenFromTty(term, tcell.OptNegotiation(false))
		if err != nil {
			t.Fatal(err)
		}
		if err := screen.Init(); err != nil {
			t.Fatal(err)
		}
		defer func() {
			if r := recover(); r != "a bug" || !term.isRestored() {
				t.Errorf("recovered %v; the terminal received %q", r, term.written.String())
			}
		}()
		defer restoreOnPanic(screen)
		panic("a bug")
	})
}

// Text is drawn with the styles that the terminal supports, and clipped to the screen. All
// other terminal sequences are dropped.
func TestPaint(t *testing.T) {
	for name, colors := range map[string]tcell.OptColors{"colors": 256, "none": 0} {
		t.Run(name, func(t *testing.T) {
			term := newTerminal()
			screen, err := tcell.NewTerminfoScreenFromTty(term, tcell.OptNegotiation(false), colors)
			if err != nil {
				t.Fatal(err)
			}
			if err := screen.Init(); err != nil {
				t.Fatal(err)
			}
			defer screen.Fini()
			text := output.Bold.Styled("b") + output.Name.Styled("n") + output.Faint.Styled("f") + output.Bad.Styled("日本") + "p\x1b[2J\x1b]0;title\x07\n"
			paint(screen, text+strings.Repeat("wide", 20)+"\nthird\nfourth\nfifth\nsixth\n")
			screen.Show()
			var lines []string
			for y := range 5 {
				line := ""
				for x := 0; x < 40; {
					text, _, width := screen.Get(x, y)
					line, x = line+text, x+max(width, 1)
				}
				lines = append(lines, strings.TrimRight(line, " "))
			}
			want := "bnf日本p\n" + strings.Repeat("wide", 10) + "\nthird\nfourth\nfifth"
			if got := strings.Join(lines, "\n"); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			plain := tcell.StyleDefault
			styles := []tcell.Style{plain.Bold(true), plain.Foreground(color.Teal), plain.Dim(true), plain.Foreground(color.Maroon)}
			if colors == 0 {
				styles[1], styles[3] = plain, plain
			}
			for x, want := range append(styles, plain) {
				if x == 4 {
					x = 7
				}
				if _, got, _ := screen.Get(x, 0); got != want {
					t.Errorf("style at %d: got %v, want %v", x, got, want)
				}
			}
			term.mu.Lock()
			defer term.mu.Unlock()
			if got := term.written.String(); strings.Contains(got, "title") || strings.Contains(got, "\x1b[2J") {
				t.Errorf("the terminal received %q", got)
			}
		})
	}
}
