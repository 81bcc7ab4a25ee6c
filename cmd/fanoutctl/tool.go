package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/charmbracelet/colorprofile"
	"github.com/charmbracelet/x/term"
	"github.com/schollz/progressbar/v3"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/internal/ctl/output"
)

// tool is what the commands share.
type tool struct {
	environ []string
	vars    map[string]string // with our prefix, by name
	in      io.Reader
	stdout  io.Writer
	out     *bufio.Writer // for stdout
	stderr  io.Writer
	plain   io.Writer // out, with the colours that the terminal has, or none

	configPath  string
	contextName string
	flags       connection
	timeout     time.Duration

	settings    connection // in effect, once connected
	connected   *client.Client
	connections []*client.Client // all there are
}

func newTool(environ []string, in io.Reader, stdout, stderr io.Writer) *tool {
	t := &tool{environ: environ, vars: variables(environ), in: in, stdout: stdout, stderr: stderr, out: bufio.NewWriter(stdout)}
	// What the terminal can do is found out of the real standard output.
	t.plain = &colorprofile.Writer{Forward: t.out, Profile: colorprofile.Detect(stdout, environ)}
	return t
}

func (t *tool) close() {
	for _, c := range t.connections {
		_ = c.Close() // nothing is under way any more
	}
}

// width is that of the terminal, 0 if standard output is none.
func (t *tool) width() int { return width(t.stdout) }

func width(w io.Writer) int {
	f, ok := w.(*os.File)
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

// writer returns where a format is written to: tables get colours, everything else
// is left as it is.
func (t *tool) writer(f output.Format) io.Writer {
	if f == output.Table || f == output.Wide {
		return t.plain
	}
	return t.out
}

// client connects to the servers. There is one client for all that a command does with
// objects.
func (t *tool) client() (*client.Client, error) {
	if t.connected != nil {
		return t.connected, nil
	}
	opts, err := t.options()
	if err != nil {
		return nil, err
	}
	c, err := client.New(t.settings.Server, opts...)
	if err != nil {
		return nil, usageError{err}
	}
	t.connected, t.connections = c, append(t.connections, c)
	return c, nil
}

// options puts the settings together, and returns what they say of connections.
func (t *tool) options() ([]client.Option, error) {
	if err := t.resolve(); err != nil {
		return nil, err
	}
	opts, err := t.credentials()
	if err != nil {
		return nil, err
	}
	return append(opts, client.WithUserAgent("fanoutctl")), nil
}

// resource returns a resource of the server.
func (t *tool) resource(name string) (*client.Resource, error) {
	c, err := t.client()
	if err != nil {
		return nil, err
	}
	return c.Resource(name), nil
}

// within returns a context for one request, or several small ones: bounded by
// --timeout, or else by the time that is usual.
func (t *tool) withTimeout(ctx context.Context, usual time.Duration) (context.Context, context.CancelFunc) {
	limit := t.timeout
	if limit == 0 {
		limit = usual
	}
	if limit == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, limit)
}

// usual is how long a request may take.
const usual = 30 * time.Second

// variables returns the variables with our prefix that are not empty.
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

// variable returns the last value that a variable has.
func (t *tool) variable(name string) string {
	for i := len(t.environ) - 1; i >= 0; i-- {
		if n, value, _ := strings.Cut(t.environ[i], "="); n == name {
			return value
		}
	}
	return ""
}

// progress shows how far a command is, on standard error and only if that is a
// terminal. The zero value shows nothing.
type progress struct {
	bar *progressbar.ProgressBar
	w   io.Writer
}

// progress begins one; a negative total is not known yet.
func (t *tool) progress(title string, total int64) *progress {
	if !isTerminal(t.stderr) || total == 0 {
		return &progress{}
	}
	return &progress{w: t.stderr, bar: progressbar.NewOptions64(total,
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
	)}
}

// add says that so many more are done. What goes wrong with showing it does not
// matter.
func (p *progress) add(n int) {
	if p.bar != nil {
		_ = p.bar.Add(n)
	}
}

// set says how many are done of how many, if that is known.
func (p *progress) set(done int, total int64) {
	if p.bar == nil {
		return
	}
	if total > 0 {
		p.bar.ChangeMax64(total)
	}
	_ = p.bar.Set(done)
}

// clear makes room for a line of text.
func (p *progress) clear() {
	if p.bar != nil {
		_ = p.bar.Clear()
	}
}

// finish leaves what is shown and goes to the next line.
func (p *progress) finish() {
	if p.bar != nil {
		_ = p.bar.Exit()
		fmt.Fprintln(p.w)
	}
}
