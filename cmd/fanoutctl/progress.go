package main

import (
	"fmt"
	"io"
	"time"

	"github.com/schollz/progressbar/v3"
)

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
