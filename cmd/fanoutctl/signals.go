package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
)

// errInterrupted is the cause of a command's context that a signal canceled.
var errInterrupted = errors.New("interrupted")

// interruptHandler handles SIGINT, SIGTERM and SIGHUP. The first signal cancels the command,
// which then finishes its current step. The second one exits at once. While an editor runs,
// Ctrl-C belongs to the editor, and no signal exits before the editor does.
type interruptHandler struct {
	signals chan os.Signal
	editors chan editorChange
	cancel  func()
	exit    func()
}

// editorChange reports that an editor has started or ended.
type editorChange struct {
	running bool
	done    chan struct{} // closed once the earlier signals are handled
}

// interrupts is the handler of the process, or nil in tests.
var interrupts *interruptHandler

// interruptible starts the handler and returns a context that a signal cancels with
// [errInterrupted].
func interruptible() context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	interrupts = newInterruptHandler(func() { cancel(errInterrupted) }, func() { os.Exit(exitInterrupted) })
	signal.Notify(interrupts.signals, syscall.SIGINT, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // nohup ignores it
		signal.Notify(interrupts.signals, syscall.SIGHUP)
	}
	go interrupts.run()
	return ctx
}

func newInterruptHandler(cancel, exit func()) *interruptHandler {
	return &interruptHandler{signals: make(chan os.Signal, 8), editors: make(chan editorChange), cancel: cancel, exit: exit}
}

// run handles signals until editors is closed. In production it runs as long as the process.
func (h *interruptHandler) run() {
	editor, canceled := false, false
	handle := func(sig os.Signal) {
		switch {
		case sig == syscall.SIGINT && editor:
		case !canceled:
			canceled = true
			h.cancel()
		case !editor:
			h.exit()
		}
	}
	for {
		select {
		case sig := <-h.signals:
			handle(sig)
		case change, ok := <-h.editors:
			if !ok {
				return
			}
			for len(h.signals) > 0 {
				handle(<-h.signals)
			}
			editor = change.running
			close(change.done)
		}
	}
}

// setEditorRunning reports the start or end of an editor. It returns once all signals that
// arrived before the call are handled under the previous state, so a signal that arrives
// just before the editor ends still counts as one during the editor.
func (h *interruptHandler) setEditorRunning(running bool) {
	if h == nil {
		return
	}
	// signal.Stop waits until all received signals are delivered to their channels.
	delivered := make(chan os.Signal, 1)
	signal.Notify(delivered, syscall.SIGTERM)
	signal.Stop(delivered)
	change := editorChange{running, make(chan struct{})}
	h.editors <- change
	<-change.done
}
