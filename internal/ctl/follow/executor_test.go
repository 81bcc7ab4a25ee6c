package follow

import (
	"os"
	"strings"
	"testing"

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
