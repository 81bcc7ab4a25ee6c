package main

import (
	"bufio"
	"context"
	"io"
	"maps"
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
	vars    map[string]string // environ by name, without empty variables
	in      io.Reader
	stdout  io.Writer
	out     *bufio.Writer // buffers stdout, and keeps the first error for the flush at the end
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

	settings  connection      // the settings in effect, set by resolve
	inContext string          // the context whose server they have; empty: none
	client    *client.Client  // for object requests; nil for commands that need no server
	each      []client.Server // for requests to each server, set by eachServer
}

func newTool(environ []string, in io.Reader, stdout, stderr io.Writer) *tool {
	t := &tool{environ: environ, vars: variables(environ), in: in, stdout: stdout, stderr: stderr, out: bufio.NewWriter(stdout)}
	// The profile depends on the real standard output, not on the buffer.
	t.styled = &colorprofile.Writer{Forward: t.out, Profile: colorprofile.Detect(stdout, environ)}
	return t
}

func (t *tool) close() {
	if t.client != nil {
		_ = t.client.Close() // no requests are pending
	}
	for _, s := range t.each {
		_ = s.Client.Close()
	}
}

// width returns the width of the terminal, or 0 if standard output is not a terminal.
func (t *tool) width() int {
	f, ok := t.stdout.(*os.File)
	if !ok {
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

// printer returns what prints in a format. Only tables are styled. On a terminal, values and
// keys cannot control it.
func (t *tool) printer(f output.Format) output.Printer {
	p := output.Printer{W: t.out, Format: f, Width: t.width()}
	switch {
	case f == output.Table || f == output.Wide:
		p.W = t.styled
	case isTerminal(t.stdout):
		p.W = output.Visible(t.out)
	}
	return p
}

// connect makes the client for object requests.
func (t *tool) connect() error {
	opts, err := t.options()
	if err != nil {
		return err
	}
	t.client, err = client.New(t.settings.Server, opts...)
	if err != nil {
		return usageError{err}
	}
	return nil
}

// options resolves the settings and returns them as client options.
func (t *tool) options() ([]client.Option, error) {
	if err := t.resolve(); err != nil {
		return nil, err
	}
	opts, err := credentialOptions(t.settings, t.token())
	if err != nil {
		return nil, err
	}
	return append(opts, t.commonOptions(t.settings.Server)...), nil
}

// commonOptions returns the client options that do not depend on the credentials.
func (t *tool) commonOptions(server string) []client.Option {
	opts := []client.Option{client.WithUserAgent("fanoutctl"), client.WithRequestTimeout(0)} // the commands have their own
	if !t.fullScreen {
		opts = append(opts, client.WithWaitingNotice(waitingNotice, func(failure error) { t.reportWaiting(server, failure) }))
	}
	return opts
}

// requestTimeout is the default timeout of a single request.
const requestTimeout = 30 * time.Second

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

// variables returns the variables that are not empty. Of duplicates, the last one counts.
func variables(environ []string) map[string]string {
	vars := map[string]string{}
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		vars[name] = value
	}
	maps.DeleteFunc(vars, func(_, value string) bool { return value == "" })
	return vars
}
