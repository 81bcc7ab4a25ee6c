package transfer

import (
	"errors"
	"strings"
	"testing"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/internal/ctl/document"
)

// Batches are bounded in number and in bytes, and a change that is too large for a batch is alone in one.
func TestBatchesAreBounded(t *testing.T) {
	change := func(bytes int) Change {
		text := strings.Repeat("x", bytes)
		return Change{Action: Create, Key: "k", New: &document.Document{Key: "k", Content: document.Content{Text: &text}}}
	}
	var changes []Change
	for range 300 {
		changes = append(changes, change(10))
	}
	changes = append(changes, change(batchBytes+1), change(batchBytes/2), change(batchBytes/2), change(1))
	var sizes []int
	n := 0
	for _, batch := range splitBatches(changes) {
		bytes := 0
		for i := range batch {
			bytes += batch[i].size()
		}
		if len(batch) > batchOps || len(batch) > 1 && bytes > batchBytes {
			t.Errorf("a batch has %d changes and %d bytes", len(batch), bytes)
		}
		sizes, n = append(sizes, len(batch)), n+len(batch)
	}
	if n != len(changes) || len(sizes) != 6 {
		t.Errorf("got batches of %v, want 6 with %d changes", sizes, len(changes))
	}
}

// A scope has the keys below its path, not the path itself or its neighbours.
func TestScopes(t *testing.T) {
	for key, in := range map[string]bool{"shop/a": true, "shop": false, "shopping/a": false, "shop/.git/a": false} {
		if got := (Scope{Prefix: "shop", SkipHidden: true}).contains(key); got != in {
			t.Errorf("%s: got %v, want %v", key, got, in)
		}
	}
	if !(Scope{}).contains("shop/.git/a") {
		t.Error("a scope without options has not every key")
	}
}

// The few documents of a small import are compared with one Get each, and many with a list. Both ways find
// the same changes.
func TestSmallAndLargePlansAgree(t *testing.T) {
	_, r := newServer(t, nil)
	put := func(key, text string) {
		t.Helper()
		if _, err := r.Put(t.Context(), key, client.Text(text)); err != nil {
			t.Fatal(err)
		}
	}
	put("a", "same")
	put("b", "old")
	put("extra", "x")
	var documents []document.Document
	for key, text := range map[string]string{"a": "same", "b": "new", "c": "created"} {
		documents = append(documents, document.Document{Key: key, Content: document.Content{Text: &text}, Where: "here"})
	}
	for prune, want := range map[bool]string{false: "update b create c", true: "update b create c delete extra"} {
		plan, err := NewPlan(t.Context(), r, documents, Scope{Prune: prune})
		if err != nil {
			t.Fatal(err)
		}
		var changes []string
		for _, c := range plan.Changes {
			changes = append(changes, string(c.Action), c.Key)
		}
		if got := strings.Join(changes, " "); got != want || plan.Unchanged != 1 {
			t.Errorf("prune %v: got %s and %d unchanged, want %s and 1", prune, got, plan.Unchanged, want)
		}
	}
	if _, err := NewPlan(t.Context(), r, nil, Scope{Prune: true}); !errors.Is(err, ErrNoDocuments) {
		t.Errorf("got %v, want %v", err, ErrNoDocuments)
	}
}

// Deletions are those of the objects as they were listed: one that has changed since is kept.
func TestChangedObjectsAreNotDeleted(t *testing.T) {
	_, r := newServer(t, nil)
	for _, key := range []string{"old/a", "old/b", "old/gone", "new"} {
		if _, err := r.Put(t.Context(), key, client.Text("1")); err != nil {
			t.Fatal(err)
		}
	}
	changes, err := Deletions(t.Context(), r, client.Prefix("old"))
	if err != nil || len(changes) != 3 {
		t.Fatalf("got %d deletions, %v", len(changes), err)
	}
	if _, err := r.Put(t.Context(), "old/b", client.Text("2")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.Delete(t.Context(), "old/gone"); err != nil {
		t.Fatal(err)
	}
	var kept []string
	w := Writer{Resource: r, Done: func(int) {}, Failed: func(c Change, _ error) { kept = append(kept, c.Key) }}
	if deleted, failed, err := w.Apply(t.Context(), changes); err != nil || deleted != 2 || failed != 1 || strings.Join(kept, " ") != "old/b" {
		t.Errorf("%d deleted, %d failed, kept %v: %v", deleted, failed, kept, err)
	}
	if n, err := r.Count(t.Context()); err != nil || n != 2 {
		t.Errorf("got %d objects, %v", n, err)
	}
}
