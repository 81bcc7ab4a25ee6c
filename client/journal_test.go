package client_test

import (
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/fanoutd/fanoutd/client"
)

// number decodes objects that are numbers.
func number(o *client.Object) (int, error) { return strconv.Atoi(string(o.Value)) }

// journal notes what a handler is told, in short: "+a=1", "*a=1>2", "-a=2", and
// "!a" for what cannot be decoded.
type journal struct {
	mu    sync.Mutex
	lines []string // guarded by mu
	grown chan struct{}
}

func newJournal() *journal { return &journal{grown: make(chan struct{}, 1)} }

func (j *journal) note(format string, args ...any) {
	j.mu.Lock()
	j.lines = append(j.lines, fmt.Sprintf(format, args...))
	j.mu.Unlock()
	select {
	case j.grown <- struct{}{}:
	default:
	}
}

// all returns the lines there are.
func (j *journal) all() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.lines)
}

// await returns the lines when there are as many.
func (j *journal) await(t *testing.T, n int) []string {
	t.Helper()
	ctx := within(t)
	for {
		if lines := j.all(); len(lines) >= n {
			return lines
		}
		select {
		case <-j.grown:
		case <-ctx.Done():
			t.Fatalf("only %q", j.all())
		}
	}
}

func (j *journal) handler() client.Handler[int] {
	return client.Handler[int]{
		Add:    func(i client.Item[int]) { j.note("+%s=%d", i.Object.Key, i.Value) },
		Update: func(old, i client.Item[int]) { j.note("*%s=%d>%d", i.Object.Key, old.Value, i.Value) },
		Delete: func(old client.Item[int]) { j.note("-%s=%d", old.Object.Key, old.Value) },
		Error: func(o *client.Object, err error) {
			if o == nil {
				j.note("! %v", err)
				return
			}
			j.note("!%s", o.Key)
		},
	}
}

// items returns what a lister has, in short.
func items(l client.Lister[int]) []string {
	var all []string
	for i := range l.List("") {
		mark := ""
		if i.Invalid != nil {
			mark = "!"
		}
		all = append(all, fmt.Sprintf("%s=%d%s", i.Object.Key, i.Value, mark))
	}
	return all
}
