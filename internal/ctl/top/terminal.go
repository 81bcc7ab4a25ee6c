package top

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/gdamore/tcell/v3"
	"github.com/gdamore/tcell/v3/color"

	"github.com/fanoutd/fanoutd/internal/ctl/admin"
	"github.com/fanoutd/fanoutd/internal/ctl/output"
)

// patience is how long one look may take before it is given up, and an error shown.
const patience = 5 * time.Second

// Program shows the screen in a terminal.
type Program struct {
	Servers  []*admin.Admin
	Interval time.Duration // between two looks at a server
	// Explain says which server has not answered, and why, on one line.
	Explain func(server string, err error) string
}

// Run shows the screen in the terminal of the process until somebody presses q, Esc or
// Ctrl-C, or ctx ends; neither is an error. The terminal is then as it was. A server that
// does not answer is shown as such, and asked again; the others do not wait for it.
func (p *Program) Run(ctx context.Context) error { return p.run(ctx, nil) }

// run uses a terminal; nil is that of the process.
func (p *Program) run(ctx context.Context, terminal tcell.Tty) error {
	// The terminal is asked nothing: some do not answer, and top needs no more than all
	// have.
	screen, err := tcell.NewTerminfoScreenFromTty(terminal, tcell.OptNegotiation(false))
	if err == nil {
		err = screen.Init()
	}
	if err != nil {
		return fmt.Errorf("use the terminal: %w", err)
	}
	var looking sync.WaitGroup
	defer looking.Wait()
	defer screen.Fini() // whatever happens here, a panic too
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	news := make(chan looked)
	for i, server := range p.Servers {
		looking.Go(func() {
			defer restore(screen)
			p.look(ctx, i, server, news)
		})
	}
	return p.show(ctx, screen, news)
}

// restore is for a panic outside of the goroutine that ends the screen.
func restore(screen tcell.Screen) {
	if r := recover(); r != nil {
		screen.Fini()
		panic(r)
	}
}

// looked is what a server has said.
type looked struct {
	server int
	look   *Look
	err    error
}

// look asks a server again and again.
func (p *Program) look(ctx context.Context, i int, server *admin.Admin, news chan<- looked) {
	wait := time.NewTimer(0)
	defer wait.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-wait.C:
		}
		within, cancel := context.WithTimeout(ctx, patience)
		look, err := Ask(within, server)
		cancel()
		select {
		case <-ctx.Done():
			return
		case news <- looked{i, look, err}:
		}
		wait.Reset(p.Interval)
	}
}

// show shows the news until somebody ends it.
func (p *Program) show(ctx context.Context, screen tcell.Screen, news <-chan looked) error {
	answers := make(Screen, len(p.Servers))
	for i, s := range p.Servers {
		answers[i].Server = s.Server
	}
	for {
		p.draw(screen, answers)
		select {
		case <-ctx.Done():
			return nil
		case n := <-news:
			answers.note(n)
		case event := <-screen.EventQ():
			switch event := event.(type) {
			case *tcell.EventKey:
				if ends(event) {
					return nil
				}
			case *tcell.EventError:
				return fmt.Errorf("read from the terminal: %w", event)
			}
		}
	}
}

func ends(key *tcell.EventKey) bool {
	return key.Key() == tcell.KeyCtrlC || key.Key() == tcell.KeyEscape || key.Key() == tcell.KeyRune && key.Str() == "q"
}

// note keeps what a server has said. What one of several had before it has failed would
// be compared with what others have now, so it goes.
func (s Screen) note(n looked) {
	a := &s[n.server]
	a.Err = n.err
	switch {
	case n.err == nil:
		n.look.since(a.Value)
		a.Value = n.look
	case len(s) > 1:
		a.Value = nil
	}
}

// draw shows everything. What has not changed is not sent to the terminal again.
func (p *Program) draw(screen tcell.Screen, answers Screen) {
	width, height := screen.Size()
	screen.Clear()
	paint(screen, p.text(answers, width, height))
	screen.Show()
}

func (p *Program) text(answers Screen, width, height int) string {
	var b strings.Builder
	var names []string
	for _, a := range answers {
		names = append(names, a.Server)
		if a.Err != nil {
			b.WriteString(output.Bad.Styled(p.Explain(a.Server, a.Err)) + "\n")
			height--
		}
	}
	switch {
	case len(answers.answered()) > 0:
		b.WriteString(answers.View(width, height-1))
	case b.Len() == 0:
		b.WriteString("Asking " + strings.Join(names, ", ") + " ...\n")
	}
	b.WriteString(output.Faint.Styled("q ends"))
	return b.String()
}

// paint shows a text with the styles of package output, from the upper left corner on.
// What does not fit is not shown, nor is anything else that commands a terminal.
func paint(screen tcell.Screen, text string) {
	parser := ansi.NewParser()
	colours := screen.Colors() > 0
	style, y := tcell.StyleDefault, 0
	for line := range strings.Lines(text) {
		x, state := 0, byte(0)
		for len(line) > 0 {
			part, width, n, next := ansi.DecodeSequence(line, state, parser)
			switch {
			case width > 0:
				screen.Put(x, y, part, style)
				x += width
			case ansi.Cmd(parser.Command()).Final() == 'm' && ansi.HasCsiPrefix(part):
				style = styled(style, parser.Params(), colours)
			}
			line, state = line[n:], next
		}
		y++
	}
}

// styled follows the parameters of a change of style.
func styled(style tcell.Style, params ansi.Params, colours bool) tcell.Style {
	if len(params) == 0 {
		return tcell.StyleDefault
	}
	for _, param := range params {
		switch p := param.Param(0); {
		case p == 0:
			style = tcell.StyleDefault
		case p == 1:
			style = style.Bold(true)
		case p == 2:
			style = style.Dim(true)
		case p >= 30 && p < 38 && colours:
			style = style.Foreground(color.PaletteColor(p - 30))
		}
	}
	return style
}
