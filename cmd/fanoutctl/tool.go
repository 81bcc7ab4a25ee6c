package main

import (
	"bufio"
	"context"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/charmbracelet/colorprofile"
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
