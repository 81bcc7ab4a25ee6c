package client_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/internal/config"
	"github.com/fanoutd/fanoutd/test/certs"
)

// entries returns a history, one line for each entry.
func entries(t *testing.T, r *client.Resource, of client.Scope, opts ...client.HistoryOption) (lines []string) {
	t.Helper()
	for e, err := range r.History(testContext(t), of, opts...) {
		if err != nil {
			t.Fatal(err)
		}
		line := fmt.Sprintf("%s %s %q", e.Kind, e.Key, e.Message)
		if e.Object != nil {
			line += " " + string(e.Object.Value)
		}
		if e.TransactionWrites > 1 {
			line += fmt.Sprintf(" of %d", e.TransactionWrites)
		}
		lines = append(lines, line)
	}
	return lines
}

func TestHistoryHasTheMessageOfEachWrite(t *testing.T) {
	t.Parallel()
	r, ctx := newResource(t), testContext(t)
	if got := entries(t, r, nil); got != nil {
		t.Fatalf("got %q before the first write", got)
	}
	put(t, r, "a/1", "first")
	revision, err := r.Because("put").Put(ctx, "a/1", client.Text("1"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Because("try").TryPut(ctx, "a/2", client.Text("2")); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Because("update").Update(ctx, "a/1", func(old *client.Object) (*client.Value, error) {
		return new(client.Text(string(old.Value) + "!")), nil
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Because("both").Transact(ctx, client.OpPut("a/1", client.Text("2")), client.OpPut("b", client.Text("3"))); err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.Because("delete").Delete(ctx, "a/1"); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Because("try to delete").TryDelete(ctx, "a/2"); err != nil {
		t.Fatal(err)
	}
	ofA := []string{
		`delete a/2 "try to delete"`, `delete a/1 "delete"`, `put a/1 "both" of 2`, `put a/1 "update"`, `put a/2 "try"`,
		`put a/1 "put"`, `put a/1 ""`,
	}
	for name, opts := range map[string][]client.HistoryOption{"one page": nil, "a page for each": {client.HistoryPageSize(1)}} {
		if diff := cmp.Diff(ofA, entries(t, r, client.Prefix("a"), opts...)); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
	}
	want := []string{`put a/1 "put" 1`, `put a/1 "" first`}
	if diff := cmp.Diff(want, entries(t, r, client.Key("a/1"), client.HistoryUpTo(revision), client.HistoryValues())); diff != "" {
		t.Errorf("up to a revision: -want +got:\n%s", diff)
	}
	if all := entries(t, r, nil); len(all) != len(ofA)+1 {
		t.Errorf("got %q, want all writes", all)
	}
}

func TestATimeMeansTheRevisionOfTheLastWrite(t *testing.T) {
	t.Parallel()
	r, ctx := newResource(t), testContext(t)
	revision := put(t, r, "a", "1")
	var first *client.HistoryEntry
	for e, err := range r.History(ctx, client.Key("a")) {
		if err != nil {
			t.Fatal(err)
		}
		first = e
	}
	if first.Revision != revision || first.Author != "" || first.Time.IsZero() || first.ReplacedRevision != 0 {
		t.Fatalf("got %+v", first)
	}
	for name, c := range map[string]struct {
		of   client.Scope
		at   time.Time
		want int64
	}{
		"its time":      {client.Key("a"), first.Time, revision},
		"later":         {nil, first.Time.Add(time.Second), revision},
		"another scope": {client.Prefix("b"), first.Time, revision},
		"before":        {nil, first.Time.Add(-time.Millisecond), 0},
	} {
		if got, err := r.RevisionAt(ctx, c.of, c.at); err != nil || got != c.want {
			t.Errorf("%s: got revision %d and %v, want %d", name, got, err, c.want)
		}
	}
	if got := entries(t, r, nil, client.HistoryAt(first.Time.Add(-time.Millisecond))); got != nil {
		t.Errorf("got %q from before the first write", got)
	}
	if got := entries(t, r, nil, client.HistoryAt(first.Time)); len(got) != 1 {
		t.Errorf("got %q from the time of the first write", got)
	}
}

func TestOptionsOfAHistoryThatCannotBe(t *testing.T) {
	t.Parallel()
	r, ctx := newResource(t), testContext(t)
	put(t, r, "a", "1")
	for want, opts := range map[string][]client.HistoryOption{
		"HistoryUpTo and HistoryAt exclude each other":          {client.HistoryUpTo(1), client.HistoryAt(time.Now())},
		"history: HistoryUpTo and HistoryAt exclude each other": {client.HistoryAt(time.Now()), client.HistoryValues(), client.HistoryUpTo(1)},
		"HistoryPageSize(-1), want at least 0":                  {client.HistoryPageSize(-1)},
		"HistoryPageSize(-2147483649), want at least 0":         {client.HistoryPageSize(math.MinInt32 - 1)},
	} {
		n := 0
		for e, err := range r.History(ctx, client.Key("a"), opts...) {
			if n++; err == nil || e != nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v and error %v, want %q", e, err, want)
			}
			if _, ok := errors.AsType[*client.Error](err); ok {
				t.Errorf("%v comes from the server", err)
			}
		}
		if n != 1 {
			t.Errorf("%s: got %d values, want 1", want, n)
		}
	}
	for name, opts := range map[string][]client.HistoryOption{
		"the last option counts": {client.HistoryUpTo(1), client.HistoryUpTo(math.MaxInt64)},
		"the default":            {client.HistoryPageSize(0)},
		"more than a page has":   {client.HistoryPageSize(math.MaxInt)},
	} {
		if got := entries(t, r, client.Key("a"), opts...); len(got) != 1 {
			t.Errorf("%s: got %q, want one write", name, got)
		}
	}
}

func TestGetReturnsTheLastChange(t *testing.T) {
	t.Parallel()
	r, ctx := newResource(t), testContext(t)
	if _, err := r.Because("why").Put(ctx, "a", client.Text("1")); err != nil {
		t.Fatal(err)
	}
	o, err := r.Get(ctx, "a", client.LastChange())
	if err != nil {
		t.Fatal(err)
	}
	if c := o.LastChange; c == nil || c.Message != "why" || c.Author != "" || c.Time.IsZero() {
		t.Errorf("got %+v", c)
	}
	if o, err = r.Get(ctx, "a"); err != nil || o.LastChange != nil {
		t.Errorf("got %+v and %v without the option", o, err)
	}
}

func TestAResourceWithoutHistory(t *testing.T) {
	t.Parallel()
	server := newServer(t, func(cfg *config.Config) { cfg.Resources = []config.Resource{config.NewResource("config")} })
	r, ctx := newClient(t, server.Address()).Resource("config"), testContext(t)
	if _, err := r.Because("why").Put(ctx, "a", client.Text("1")); err != nil {
		t.Fatal(err)
	}
	if o, err := r.Get(ctx, "a", client.LastChange()); err != nil || o.LastChange != nil {
		t.Errorf("got %+v and %v", o, err)
	}
	n := 0
	for _, err := range r.History(ctx, nil) {
		if n++; !errors.Is(err, client.ErrNoHistory) {
			t.Errorf("got %v, want %v", err, client.ErrNoHistory)
		}
	}
	if _, err := r.RevisionAt(ctx, nil, time.Now()); n != 1 || !errors.Is(err, client.ErrNoHistory) {
		t.Errorf("got %d values, and %v, want one of %v", n, err, client.ErrNoHistory)
	}
}

func TestHistoryNeedsItsRight(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	server := newServer(t, func(cfg *config.Config) {
		cfg.TokenFile, cfg.PolicyFile = filepath.Join(dir, "tokens"), filepath.Join(dir, "policy")
		certs.Write(t, cfg.TokenFile, fmt.Appendf(nil, "ada sha256:%x\n", sha256.Sum256([]byte("secret"))))
		certs.Write(t, cfg.PolicyFile, []byte(`
rules:
- {subjects: [ada], verbs: [get, put], resources: [config]}
- {subjects: [ada], verbs: [history], resources: [config], prefixes: [team]}
`))
	})
	r, ctx := newClient(t, server.Address(), client.WithToken("secret")).Resource("config"), testContext(t)
	for _, key := range []string{"team/a", "other"} {
		if _, err := r.Because("why").Put(ctx, key, client.Text("1")); err != nil {
			t.Fatal(err)
		}
	}
	n := 0
	for e, err := range r.History(ctx, client.Prefix("team")) {
		if n++; err != nil || e.Author != "ada" || e.Message != "why" {
			t.Errorf("got %+v and %v", e, err)
		}
	}
	if o, err := r.Get(ctx, "team/a", client.LastChange()); err != nil || o.LastChange == nil || o.LastChange.Author != "ada" {
		t.Errorf("got %+v and %v", o, err)
	}
	if revision, err := r.RevisionAt(ctx, client.Prefix("team"), time.Now()); err != nil || revision == 0 {
		t.Errorf("got revision %d and %v", revision, err)
	}
	for _, err := range r.History(ctx, client.Key("other")) {
		if n++; !errors.Is(err, client.ErrPermissionDenied) || !strings.Contains(err.Error(), `"ada" may not read the history of key "other"`) {
			t.Errorf("got %v", err)
		}
	}
	if n != 2 {
		t.Errorf("got %d entries and errors, want one each", n)
	}
	if _, err := r.RevisionAt(ctx, nil, time.Now()); !errors.Is(err, client.ErrPermissionDenied) {
		t.Errorf("got %v", err)
	}
	if _, err := r.Get(ctx, "other", client.LastChange()); !errors.Is(err, client.ErrPermissionDenied) {
		t.Errorf("got %v", err)
	}
}

func TestMessagesHaveALimit(t *testing.T) {
	t.Parallel()
	r, ctx := newResource(t), testContext(t)
	for name, message := range map[string]string{"too long": strings.Repeat("x", 1025), "control characters": "a\x00b", "not UTF-8": "\xff"} {
		_, err := r.Because(message).Put(ctx, "a", client.Text("1"))
		e, ok := errors.AsType[*client.Error](err)
		if !ok || e.Reason != client.ErrInvalidRequest || len(e.Violations) != 1 || e.Violations[0].Field != "message" {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
