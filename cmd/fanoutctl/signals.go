package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
)

// errInterrupted is why the context of a command ends when somebody stops it.
var errInterrupted = errors.New("interrupted")

// stopper stops a command when the process gets SIGINT, SIGTERM or SIGHUP. The first of
// them lets the command finish what it is doing, the second ends it. While an editor has
// the terminal, Ctrl-C is for the editor, and nothing ends this command before it.
type stopper struct {
	signals chan os.Signal
	turns   chan turn
	stop    func()
	exit    func()
}

// turn says who has the terminal from now on.
type turn struct {
	editor bool
	taken  chan struct{} // is closed when everything that has come before was dealt with
}

// stopping is the stopper of the process, nil in a process that has none.
var stopping *stopper

// stoppable returns a context that ends with [errInterrupted] when somebody stops the
// process.
func stoppable() context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	stopping = newStopper(func() { cancel(errInterrupted) }, func() { os.Exit(exitInterrupted) })
	signal.Notify(stopping.signals, syscall.SIGINT, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // as nohup has it
		signal.Notify(stopping.signals, syscall.SIGHUP)
	}
	go stopping.run()
	return ctx
}

func newStopper(stop, exit func()) *stopper {
	return &stopper{signals: make(chan os.Signal, 8), turns: make(chan turn), stop: stop, exit: exit}
}

// run lasts as long as the process, or until turns is closed.
func (s *stopper) run() {
	editor, stopped := false, false
	handle := func(sig os.Signal) {
		switch {
		case sig == syscall.SIGINT && editor:
		case !stopped:
			stopped = true
			s.stop()
		case !editor:
			s.exit()
		}
	}
	for {
		select {
		case sig := <-s.signals:
			handle(sig)
		case t, ok := <-s.turns:
			if !ok {
				return
			}
			for len(s.signals) > 0 {
				handle(<-s.signals)
			}
			editor = t.editor
			close(t.taken)
		}
	}
}

// give says who has the terminal from now on. When it returns, the signals that the
// process has got until then have been dealt with as it was before: one that came while
// an editor had the terminal counts as such, even if it ends at the same moment.
func (s *stopper) give(editor bool) {
	if s == nil {
		return
	}
	// Stop waits until what the process has got is in the channels, in ours too.
	settled := make(chan os.Signal, 1)
	signal.Notify(settled, syscall.SIGTERM)
	signal.Stop(settled)
	t := turn{editor, make(chan struct{})}
	s.turns <- t
	<-t.taken
}
