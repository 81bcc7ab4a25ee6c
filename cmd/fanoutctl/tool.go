package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/charmbracelet/colorprofile"
	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/term"
	"github.com/schollz/progressbar/v3"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/internal/ctl/output"
)

// tool is the state that all commands share: the environment, the standard streams, the
// global flags and the connections.
type tool struct {
	environ []string
	vars    map[string]string // FANOUTCTL_ variables, by name
	in      io.Reader
	stdout  io.Writer
	out     *bufio.Writer // buffers stdout
	stderr  io.Writer
	styled  io.Writer // out, without the styles that the terminal does not support

	configPath  string
	contextName string
	flags       connection
	timeout     time.Duration
	fullScreen  bool // standard error must stay empty

	ran          string                                  // the path of the command that has run, such as "fanoutctl get"
	readsStale   bool                                    // whether that command has the flag --allow-stale
	shown        atomic.Pointer[progressbar.ProgressBar] // nil: no progress bar is on the screen
	interruption error                                   // why the watch of the command has lost its server; nil once it goes on

	settings connection       // the settings in effect, set by resolve
	client   *client.Client   // for object requests; nil for commands that need no server
	clients  []*client.Client // all clients, for close
}

func newTool(environ []string, in io.Reader, stdout, stderr io.Writer) *tool {
	t := &tool{environ: environ, vars: variables(environ), in: in, stdout: stdout, stderr: stderr, out: bufio.NewWriter(stdout)}
	// The profile depends on the real standard output, not on the buffer.
	t.styled = &colorprofile.Writer{Forward: t.out, Profile: colorprofile.Detect(stdout, environ)}
	return t
}

func (t *tool) close() {
	for _, c := range t.clients {
		_ = c.Close() // no requests are pending
	}
}

// width returns the width of the terminal, or 0 if standard output is not a terminal.
func (t *tool) width() int {
	f, ok := t.stdout.(*os.File)
	if !ok || !term.IsTerminal(f.Fd()) {
		return 0
	}
	columns, _, err := term.GetSize(f.Fd())
	if err != nil {
		return 0
	}
	return columns
}

func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(f.Fd())
}

// printer returns what prints in a format.
func (t *tool) printer(f output.Format) output.Printer {
	return output.Printer{W: t.writer(f), Format: f, Width: t.width()}
}

// writer returns the writer for a format. Only tables are styled. On a terminal, values and
// keys cannot control it.
func (t *tool) writer(f output.Format) io.Writer {
	switch {
	case f == output.Table || f == output.Wide:
		return t.styled
	case isTerminal(t.stdout):
		return output.Visible(t.out)
	}
	return t.out
}

// connect makes the client for object requests.
func (t *tool) connect() error {
	opts, err := t.options()
	if err != nil {
		return err
	}
	if t.client, err = client.New(t.settings.Server, opts...); err != nil {
		return usageError{err}
	}
	t.clients = append(t.clients, t.client)
	return nil
}

// options resolves the settings and returns them as client options.
func (t *tool) options() ([]client.Option, error) {
	if err := t.resolve(); err != nil {
		return nil, err
	}
	opts, err := t.credentials()
	if err != nil {
		return nil, err
	}
	opts = append(opts, client.WithUserAgent("fanoutctl"), client.WithRequestTimeout(0)) // the commands have their own
	if !t.fullScreen {
		opts = append(opts, client.WithWaitingNotice(waitingNotice, t.reportWaiting))
	}
	return opts, nil
}

// waitingNotice is the time after which fanoutctl reports that a request waits for a server.
const waitingNotice = time.Second

// reportWaiting reports that requests wait for a server.
func (t *tool) reportWaiting(failure error) {
	if bar := t.shown.Load(); bar != nil {
		fmt.Fprint(t.stderr, "\r", ansi.EraseEntireLine)
		defer func() { _ = bar.RenderBlank() }() // with its present state
	}
	if failure == nil {
		fmt.Fprintf(t.stderr, "fanoutctl: still waiting for %s to answer\n", t.settings.Server)
		return
	}
	reason := failure.Error()
	if e, ok := errors.AsType[*client.Error](failure); ok {
		reason = connectFailure(e.Message)
		if e.Reason == client.ErrStoreUnavailable {
			reason = "it has lost etcd"
		}
	}
	fmt.Fprintf(t.stderr, "fanoutctl: still waiting for %s: %s\n", t.settings.Server, reason)
}

// requestTimeout is the default timeout of a single request.
const requestTimeout = 30 * time.Second

// checkTimeout validates the flag --timeout.
func (t *tool) checkTimeout() error {
	if t.timeout < 0 {
		return usagef("--timeout must not be negative")
	}
	return nil
}

// withTimeout returns a context that --timeout limits, or byDefault if the flag is not
// set. 0 means no limit.
func (t *tool) withTimeout(ctx context.Context, byDefault time.Duration) (context.Context, context.CancelFunc) {
	limit := t.timeout
	if limit == 0 {
		limit = byDefault
	}
	if limit == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, limit)
}

// variables returns the FANOUTCTL_ variables that are not empty.
func variables(environ []string) map[string]string {
	vars := map[string]string{}
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		if strings.HasPrefix(name, envPrefix) && value != "" {
			vars[name] = value
		}
	}
	return vars
}

// variable returns the value of an environment variable. Of duplicates, the last one wins.
func (t *tool) variable(name string) string {
	for i := len(t.environ) - 1; i >= 0; i-- {
		if n, value, _ := strings.Cut(t.environ[i], "="); n == name {
			return value
		}
	}
	return ""
}

// progress is a progress bar on standard error. The zero value shows nothing. Write errors
// are ignored.
type progress struct {
	bar  *progressbar.ProgressBar
	tool *tool
}

// newProgress shows a progress bar.
func (t *tool) newProgress(bar *progressbar.ProgressBar) *progress {
	t.shown.Store(bar)
	return &progress{bar: bar, tool: t}
}

// progress starts a progress bar if standard error is a terminal. A negative total means
// that the total is not known yet.
func (t *tool) progress(title string, total int64) *progress {
	if !isTerminal(t.stderr) || total == 0 {
		return &progress{}
	}
	return t.newProgress(progressbar.NewOptions64(total,
		progressbar.OptionSetWriter(t.stderr),
		progressbar.OptionSetDescription(title),
		progressbar.OptionShowCount(),
		progressbar.OptionShowIts(),
		progressbar.OptionSetItsString("objects"),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionSetWidth(24),
		progressbar.OptionSetPredictTime(true),
		progressbar.OptionUseANSICodes(true),
		progressbar.OptionSetRenderBlankState(true),
	))
}

// waitBar starts the progress bar of a wait if standard error is a terminal.
func (t *tool) waitBar() *progress {
	if !isTerminal(t.stderr) {
		return &progress{}
	}
	return t.newProgress(progressbar.NewOptions(waitSteps,
		progressbar.OptionSetWriter(t.stderr),
		progressbar.OptionSetWidth(24),
		progressbar.OptionSetPredictTime(false),
		progressbar.OptionSetElapsedTime(true),
		progressbar.OptionUseANSICodes(true),
	))
}

// describe sets the text before the bar.
func (p *progress) describe(text string) {
	if p.bar != nil {
		p.bar.Describe(text)
	}
}

// add advances the bar by n.
func (p *progress) add(n int) {
	if p.bar != nil {
		_ = p.bar.Add(n)
	}
}

// set moves the bar to done, and sets the total if it is positive.
func (p *progress) set(done int, total int64) {
	if p.bar == nil {
		return
	}
	if total > 0 {
		p.bar.ChangeMax64(total)
	}
	_ = p.bar.Set(done)
}

// clear erases the bar to make room for a message. The next update draws it again.
func (p *progress) clear() {
	if p.bar != nil {
		_ = p.bar.Clear()
	}
}

// finish leaves the bar on the screen and moves to the next line.
func (p *progress) finish() {
	if p.bar != nil {
		p.tool.shown.Store(nil)
		_ = p.bar.Exit()
		fmt.Fprintln(p.tool.stderr)
	}
}
