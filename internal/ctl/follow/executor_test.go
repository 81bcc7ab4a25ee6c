package follow

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/internal/ctl/shell"
)

func TestEventPassesVariablesAndObject(t *testing.T) {
	var out, errs strings.Builder
	c := shell.Command{Line: `echo "$FANOUT_EVENT $FANOUT_RESOURCE $FANOUT_KEY $FANOUT_REVISION $MINE"; cat; echo oops >&2`, Environ: []string{"PATH=" + os.Getenv("PATH"), "MINE=yes"}, Stdout: &out, Stderr: &errs}
	o := &client.Object{Key: "a b/$(c)", Value: []byte(`{"n":1}`), ContentType: "application/json", ModRevision: 7}
	e := Executor{Resource: "config", Command: &c}
	if err := e.run(t.Context(), client.Event{Type: client.Modified, Revision: o.ModRevision, Object: o}); err != nil {
		t.Fatal(err)
	}
	want := "modified config a b/$(c) 7 yes\n" + `{"key":"a b/$(c)","contentType":"application/json","value":{"n":1},"modRevision":7}` + "\n"
	if out.String() != want || errs.String() != "oops\n" {
		t.Errorf("%q, %q", out.String(), errs.String())
	}
}

func TestNULInVariableIsRemoved(t *testing.T) {
	var out strings.Builder
	c := shell.Command{Line: `echo "$FANOUT_CONTENT_TYPE"`, Stdout: &out}
	o := &client.Object{Key: "a", ContentType: "text/plain\x00a"}
	e := Executor{Resource: "config", Command: &c}
	if err := e.run(t.Context(), client.Event{Type: client.Added, Revision: o.ModRevision, Object: o}); err != nil || out.String() != "text/plaina\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
}

// The position is saved after the commands of an update have run. The flag is set if a
// command has run since the last position.
func TestPositionIsSavedAfterTheCommands(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w := make(fakeWatch, 7)
	w.replace(added("a", "", 1))
	w <- live(added("b", "", 2))
	w <- &client.Update{Phase: client.PhaseLive, Position: client.Position{Revision: 3}}
	w <- &client.Update{Phase: client.PhaseLive, Events: []client.Event{added("c", "", 4)}}
	w <- &client.Update{Phase: client.PhaseLive, Position: client.Position{Revision: 4}}
	w <- live(added("fails", "", 5))
	type call struct {
		Revision int64
		Now      bool
	}
	var saved []call
	e := Executor{
		Resource: "config", Policy: Stop, Report: func(err error) { t.Error(err) },
		Command: &shell.Command{Line: `test "$FANOUT_KEY" != fails`},
		Save:    func(p client.Position, now bool) error { saved = append(saved, call{p.Revision, now}); return nil },
	}
	if err := e.Run(ctx, w.updates); err == nil || !strings.Contains(err.Error(), `"fails" ADDED`) {
		t.Error(err)
	}
	if diff := cmp.Diff([]call{{1, true}, {2, true}, {3, false}, {4, true}}, saved); diff != "" {
		t.Error(diff)
	}
}
