package main

import (
	"os"
	"syscall"
	"testing"
)

// A signal is handled by the state at its arrival, however late it is processed.
func TestSignalsAreHandledByTheStateAtTheirArrival(t *testing.T) {
	for name, c := range map[string]struct {
		before, during, after []os.Signal
		canceled, exited      int // in the end
		canceledAfterEditor   int // when the editor has ended
	}{
		"Ctrl-C belongs to the editor":            {during: []os.Signal{syscall.SIGINT, syscall.SIGINT}},
		"Ctrl-C after the editor cancels":         {during: []os.Signal{syscall.SIGINT}, after: []os.Signal{syscall.SIGINT}, canceled: 1},
		"SIGTERM during the editor cancels":       {during: []os.Signal{syscall.SIGTERM}, canceled: 1, canceledAfterEditor: 1},
		"no signal exits during the editor":       {during: []os.Signal{syscall.SIGTERM, syscall.SIGTERM}, canceled: 1, canceledAfterEditor: 1},
		"the second signal exits":                 {after: []os.Signal{syscall.SIGTERM, syscall.SIGINT}, canceled: 1, exited: 1},
		"one signal before and one after":         {before: []os.Signal{syscall.SIGINT}, after: []os.Signal{syscall.SIGINT}, canceled: 1, canceledAfterEditor: 1, exited: 1},
		"one signal before and one in the editor": {before: []os.Signal{syscall.SIGTERM}, during: []os.Signal{syscall.SIGINT}, canceled: 1, canceledAfterEditor: 1},
	} {
		t.Run(name, func(t *testing.T) {
			canceled, exited := 0, 0 // written by h.run, which setEditorRunning waits for
			h := newInterruptHandler(func() { canceled++ }, func() { exited++ })
			send := func(signals []os.Signal) {
				for _, sig := range signals {
					h.signals <- sig
				}
			}
			// These are still queued when the editor starts.
			send(c.before)
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				h.run()
			}()
			h.setEditorRunning(true)
			send(c.during)
			h.setEditorRunning(false)
			if canceled != c.canceledAfterEditor {
				t.Errorf("after the editor: canceled %d times, want %d", canceled, c.canceledAfterEditor)
			}
			send(c.after)
			h.setEditorRunning(false)
			if canceled != c.canceled || exited != c.exited {
				t.Errorf("canceled %d times and exited %d times, want %d and %d", canceled, exited, c.canceled, c.exited)
			}
			close(h.editors)
			<-ended
		})
	}
}
