package client_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/fanoutd/fanoutd/client"
)

// number decodes objects that are numbers.
func number(o *client.Object) (int, error) { return strconv.Atoi(string(o.Value)) }

// recorder records the calls of a handler, in short: "+a=1", "*a=1>2", "-a=2", "!a" for
// an object that cannot be decoded, and "! error" for an error without an object.
type recorder struct {
	mu    sync.Mutex
	lines []string // guarded by mu
	grown chan struct{}
	// results returns what a call of the handler returns; nil: no errors.
	results func(line string) error
}

func newRecorder() *recorder { return &recorder{grown: make(chan struct{}, 1)} }

func (r *recorder) record(format string, args ...any) {
	r.mu.Lock()
	r.lines = append(r.lines, fmt.Sprintf(format, args...))
	r.mu.Unlock()
	select {
	case r.grown <- struct{}{}:
	default:
	}
}

// call records a call and returns its result.
func (r *recorder) call(format string, args ...any) error {
	line := fmt.Sprintf(format, args...)
	r.record("%s", line)
	if r.results == nil {
		return nil
	}
	return r.results(line)
}

// all returns the calls so far.
func (r *recorder) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.lines)
}

// await returns the calls when there are n of them.
func (r *recorder) await(t *testing.T, n int) []string {
	t.Helper()
	ctx := testContext(t)
	for {
		if lines := r.all(); len(lines) >= n {
			return lines
		}
		select {
		case <-r.grown:
		case <-ctx.Done():
			t.Fatalf("got %q, want %d calls", r.all(), n)
		}
	}
}

func (r *recorder) handler() client.Handler[int] {
	return client.Handler[int]{
		Add:    func(i client.Item[int]) error { return r.call("+%s=%d", i.Object.Key, i.Value) },
		Update: func(old, i client.Item[int]) error { return r.call("*%s=%d>%d", i.Object.Key, old.Value, i.Value) },
		Delete: func(old client.Item[int]) error { return r.call("-%s=%d", old.Object.Key, old.Value) },
		Error: func(o *client.Object, err error) {
			if o == nil {
				r.record("! %v", err)
				return
			}
			r.record("!%s", o.Key)
		},
	}
}

// items returns the items of a lister, in short: "a=1", or "a=1!" if the item is
// invalid.
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

// formatPosition returns a position in short: "epoch/revision".
func formatPosition(p client.Position) string { return fmt.Sprintf("%s/%d", p.Epoch, p.Revision) }

// formatUpdate returns an update in short: "replace", events such as "+a@3", "synced"
// and the position, in brackets if the update is not complete.
func formatUpdate(u *client.Update) string {
	var words []string
	if u.Phase == client.PhaseReset {
		words = append(words, "replace")
	}
	if u.Delta {
		words = append(words, "delta")
	}
	for _, e := range u.Events {
		sign := map[client.EventType]string{client.Added: "+", client.Modified: "*", client.Deleted: "-"}[e.Type]
		words = append(words, fmt.Sprintf("%s%s@%d", sign, e.Object.Key, e.Revision))
	}
	if u.Phase == client.PhaseSynced {
		words = append(words, "synced")
	}
	position := formatPosition(u.Position)
	if !u.Phase.Complete() {
		position = "[" + position + "]"
	}
	return strings.Join(append(words, position), " ")
}
