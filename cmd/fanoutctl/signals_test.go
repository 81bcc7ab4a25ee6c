package main

import (
	"os"
	"syscall"
	"testing"
)

// A signal counts for who had the terminal when it came, whenever it is dealt with.
func TestSignalsCountWhenTheyCome(t *testing.T) {
	for name, c := range map[string]struct {
		before, during, after []os.Signal
		stopped, exited       int // in the end
		atReturn              int // how often it was stopped when the editor has ended
	}{
		"Ctrl-C is for the editor":      {during: []os.Signal{syscall.SIGINT, syscall.SIGINT}},
		"and then for the command":      {during: []os.Signal{syscall.SIGINT}, after: []os.Signal{syscall.SIGINT}, stopped: 1},
		"stopped while it is open":      {during: []os.Signal{syscall.SIGTERM}, stopped: 1, atReturn: 1},
		"nothing ends it then":          {during: []os.Signal{syscall.SIGTERM, syscall.SIGTERM}, stopped: 1, atReturn: 1},
		"the second one ends it":        {after: []os.Signal{syscall.SIGTERM, syscall.SIGINT}, stopped: 1, exited: 1},
		"one before and one after":      {before: []os.Signal{syscall.SIGINT}, after: []os.Signal{syscall.SIGINT}, stopped: 1, atReturn: 1, exited: 1},
		"one before and one for editor": {before: []os.Signal{syscall.SIGTERM}, during: []os.Signal{syscall.SIGINT}, stopped: 1, atReturn: 1},
	} {
		t.Run(name, func(t *testing.T) {
			stopped, exited := 0, 0 // by the goroutine of s, which give waits for
			s := newStopper(func() { stopped++ }, func() { exited++ })
			send := func(signals []os.Signal) {
				for _, sig := range signals {
					s.signals <- sig
				}
			}
			// Nobody has dealt with these when the editor is opened.
			send(c.before)
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				s.run()
			}()
			s.give(true)
			send(c.during)
			s.give(false)
			if stopped != c.atReturn {
				t.Errorf("stopped %d times when the editor has ended, want %d", stopped, c.atReturn)
			}
			send(c.after)
			s.give(false)
			if stopped != c.stopped || exited != c.exited {
				t.Errorf("stopped %d times and ended %d times, want %d and %d", stopped, exited, c.stopped, c.exited)
			}
			close(s.turns)
			<-ended
		})
	}
}
