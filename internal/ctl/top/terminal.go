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

	"github.com/fanoutd/fanoutd/internal/backoff"
	"github.com/fanoutd/fanoutd/internal/ctl/admin"
	"github.com/fanoutd/fanoutd/internal/ctl/output"
)

// snapshotTimeout limits one snapshot of a server.
const snapshotTimeout = 5 * time.Second

// Program shows the screen on a terminal.
type Program struct {
	Servers  []*admin.Admin
	Interval time.Duration // between two snapshots of a server
	// Explain returns a one-line message that names the server and its error.
	Explain func(server string, err error) string
}

// Run shows the screen on the terminal of the process until the user presses q, Esc or
// Ctrl-C, or ctx ends; neither is an error. It then restores the terminal. The error of a
// server is shown, and the server is queried again; the other servers do not wait for it.
func (p *Program) Run(ctx context.Context) error { return p.run(ctx, nil) }

// run uses the given terminal, or that of the process if it is nil.
func (p *Program) run(ctx context.Context, terminal tcell.Tty) error {
	// Do not query the terminal's capabilities: some terminals do not answer, and top needs
	// only common ones.
	screen, err := tcell.NewTerminfoScreenFromTty(terminal, tcell.OptNegotiation(false))
	if err == nil {
		err = screen.Init()
	}
	if err != nil {
		return fmt.Errorf("cannot use the terminal: %w", err)
	}
	var pollers sync.WaitGroup
	defer pollers.Wait()
	defer screen.Fini() // even after a panic
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	results := make(chan result)
	for i, server := range p.Servers {
		pollers.Go(func() {
			defer restoreOnPanic(screen)
			p.poll(ctx, i, server, results)
		})
	}
	return p.show(ctx, screen, results)
}

// restoreOnPanic restores the terminal after a panic in a goroutine other than that of run.
func restoreOnPanic(screen tcell.Screen) {
	if r := recover(); r != nil {
		screen.Fini()
		panic(r)
	}
}

// result is a snapshot of a server, or its error.
type result struct {
	server   int // index into Servers
	snapshot *Snapshot
	err      error
}

// poll takes snapshots of a server until ctx ends.
func (p *Program) poll(ctx context.Context, i int, server *admin.Admin, results chan<- result) {
	for {
		requestCtx, cancel := context.WithTimeout(ctx, snapshotTimeout)
		snapshot, err := TakeSnapshot(requestCtx, server)
		cancel()
		select {
		case <-ctx.Done():
			return
		case results <- result{i, snapshot, err}:
		}
		if !backoff.Sleep(ctx, p.Interval) {
			return
		}
	}
}

// show draws the results until the user quits or ctx ends.
func (p *Program) show(ctx context.Context, screen tcell.Screen, results <-chan result) error {
	answers := make(Screen, len(p.Servers))
	for i, s := range p.Servers {
		answers[i].Server = s.Server
	}
	var chosen controls
	for {
		p.draw(screen, answers, &chosen)
		select {
		case <-ctx.Done():
			return nil
		case r := <-results:
			answers.update(r)
		case event := <-screen.EventQ():
			switch event := event.(type) {
			case *tcell.EventKey:
				if !chosen.press(event) {
					return nil
				}
			case *tcell.EventError:
				return fmt.Errorf("cannot read from the terminal: %w", event)
			}
		}
	}
}

// update records a result. If one of several servers fails, its last snapshot is dropped,
// because it would be merged with newer ones of the others.
func (s Screen) update(r result) {
	a := &s[r.server]
	a.Err = r.err
	switch {
	case r.err == nil:
		r.snapshot.setRate(a.Value)
		a.Value = r.snapshot
	case len(s) > 1:
		a.Value = nil
	}
}

// draw draws the screen. tcell sends only differences to the terminal.
func (p *Program) draw(screen tcell.Screen, answers Screen, chosen *controls) {
	width, height := screen.Size()
	screen.Clear()
	paint(screen, p.text(answers, chosen, width, height))
	screen.Show()
}

// text returns the errors, the view or the help, and the status line.
func (p *Program) text(answers Screen, chosen *controls, width, height int) string {
	var b strings.Builder
	var names []string
	for _, a := range answers {
		names = append(names, a.Server)
		if a.Err != nil {
			failure := ansi.Wrap(p.Explain(a.Server, a.Err), width, "")
			b.WriteString(output.Bad.Styled(failure) + "\n")
			height -= strings.Count(failure, "\n") + 1
		}
	}
	switch {
	case chosen.help:
		b.WriteString(helpText)
	case len(answers.snapshots()) > 0:
		b.WriteString(answers.view(chosen, width, height-1))
	case b.Len() == 0:
		b.WriteString("Connecting to " + strings.Join(names, ", ") + " ...\n")
	}
	b.WriteString(output.Faint.Styled(chosen.status()))
	return b.String()
}

// paint draws a text with the styles of package output, from the upper left corner. It drops
// what does not fit, and all other terminal sequences.
func paint(screen tcell.Screen, text string) {
	parser := ansi.NewParser()
	colors := screen.Colors() > 0
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
				style = applySGR(style, parser.Params(), colors)
			}
			line, state = line[n:], next
		}
		y++
	}
}

// applySGR applies the parameters of an SGR sequence (select graphic rendition) to a style.
func applySGR(style tcell.Style, params ansi.Params, colors bool) tcell.Style {
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
		case p >= 30 && p < 38 && colors:
			style = style.Foreground(color.PaletteColor(p - 30))
		}
	}
	return style
}
