package top

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/fanoutd/fanoutd/internal/ctl/output"
)

// patience is how long one look may take before it is given up, and an error shown.
const patience = 5 * time.Second

// Run shows the screen in a terminal until somebody presses q or Ctrl-C, or ctx
// ends; neither is an error. The terminal is then as it was. A server that does not
// answer is shown as such, and asked again.
func Run(ctx context.Context, s Source, interval time.Duration, in io.Reader, out io.Writer) error {
	m := model{ctx: ctx, source: s, interval: interval}
	p := tea.NewProgram(m, tea.WithContext(ctx), tea.WithInput(in), tea.WithOutput(out), tea.WithAltScreen(), tea.WithoutSignalHandler())
	_, err := p.Run()
	if errors.Is(err, tea.ErrProgramKilled) || errors.Is(err, tea.ErrInterrupted) {
		return nil
	}
	return err
}

// model is the state of what is shown. It is changed by the loop of the program
// alone.
type model struct {
	ctx      context.Context
	source   Source
	interval time.Duration

	width, height int
	screen        *Screen // the newest
	err           error   // of the last look
}

// The messages of the loop.
type (
	looked struct {
		screen *Screen
		err    error
	}
	due struct{}
)

// Init implements tea.Model.
func (m model) Init() tea.Cmd { return m.look }

// look asks the server. It runs beside the loop.
func (m model) look() tea.Msg {
	ctx, cancel := context.WithTimeout(m.ctx, patience)
	defer cancel()
	screen, err := m.source.Look(ctx)
	return looked{screen, err}
}

// Update implements tea.Model.
func (m model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.KeyMsg:
		switch msg.String() {
		case "q", "ctrl+c", "esc":
			return m, tea.Quit
		}
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case due:
		return m, m.look
	case looked:
		if m.err = msg.err; msg.err == nil {
			msg.screen.since(m.screen)
			m.screen = msg.screen
		}
		return m, tea.Tick(m.interval, func(time.Time) tea.Msg { return due{} })
	}
	return m, nil
}

// View implements tea.Model.
func (m model) View() string {
	var b strings.Builder
	if m.err != nil {
		b.WriteString(output.Bad.Styled(m.source.Explain(m.err)) + "\n")
	}
	switch {
	case m.screen != nil:
		height := m.height - 1
		if m.err != nil {
			height--
		}
		b.WriteString(m.screen.View(m.width, height))
	case m.err == nil:
		b.WriteString("Asking " + m.source.Server + " ...\n")
	}
	b.WriteString(output.Faint.Styled("q ends"))
	return b.String()
}
