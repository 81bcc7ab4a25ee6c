package main

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/schollz/progressbar/v3"

	"github.com/fanoutd/fanoutd/client"
)

// progress is a progress bar on standard error. Write errors are ignored.
type progress struct {
	*progressbar.ProgressBar
	tool *tool
}

// newProgress starts a progress bar, which is invisible if standard error is no terminal.
func (t *tool) newProgress(total int64, options ...progressbar.Option) *progress {
	p := &progress{tool: t}
	stderr := io.Discard
	if isTerminal(t.stderr) && total != 0 {
		stderr = t.stderr
	}
	p.ProgressBar = progressbar.NewOptions64(total, append(options,
		progressbar.OptionSetWriter(stderr),
		progressbar.OptionSetWidth(24),
		progressbar.OptionUseANSICodes(true),
		// Otherwise a goroutine of the library draws a bar without a total, and reads it without its lock.
		progressbar.OptionSetSpinnerChangeInterval(0),
	)...)
	if stderr != io.Discard {
		t.shown.Store(p.ProgressBar)
	}
	return p
}

// countObjects starts the progress bar of a command for many objects. A negative total means that the total
// is not known yet.
func (t *tool) countObjects(title string, total int64) *progress {
	return t.newProgress(total,
		progressbar.OptionSetDescription(title),
		progressbar.OptionShowCount(),
		progressbar.OptionShowIts(),
		progressbar.OptionSetItsString("objects"),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionSetPredictTime(true),
		progressbar.OptionSetRenderBlankState(true),
	)
}

// add advances the bar by n.
func (p *progress) add(n int) { _ = p.Add(n) }

// printf prints a message where the bar is. The next update draws the bar again.
func (p *progress) printf(format string, args ...any) {
	_ = p.Clear()
	fmt.Fprintf(p.tool.stderr, format, args...)
}

// finish leaves the bar on the screen and moves to the next line.
func (p *progress) finish() {
	_ = p.Exit()
	if p.tool.shown.Swap(nil) != nil {
		fmt.Fprintln(p.tool.stderr)
	}
}

// waitingNotice is the time after which fanoutctl reports that a request waits for a server.
const waitingNotice = time.Second

// reportWaiting reports that requests wait for this server.
func (t *tool) reportWaiting(server string, failure error) {
	if bar := t.shown.Load(); bar != nil {
		fmt.Fprint(t.stderr, "\r", ansi.EraseEntireLine)
		defer func() { _ = bar.RenderBlank() }() // with its present state
	}
	if failure == nil {
		fmt.Fprintf(t.stderr, "fanoutctl: still waiting for %s to answer\n", server)
		return
	}
	reason := failure.Error()
	if e, ok := errors.AsType[*client.Error](failure); ok {
		reason = connectFailure(e.Message)
		if e.Reason == client.ErrStoreUnavailable {
			reason = "it has lost etcd"
		}
	}
	fmt.Fprintf(t.stderr, "fanoutctl: still waiting for %s: %s\n", server, reason)
}
