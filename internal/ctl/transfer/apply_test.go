package transfer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/internal/config"
	"github.com/fanoutd/fanoutd/internal/ctl/document"
	"github.com/fanoutd/fanoutd/test/inprocess"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newServer(t *testing.T, change func(*config.Config)) (*inprocess.Server, *client.Resource) {
	t.Helper()
	cfg := inprocess.Config(t)
	cfg.ShutdownGrace = config.Duration(2 * time.Second)
	if change != nil {
		change(&cfg)
	}
	s := inprocess.Start(t, cfg)
	c, err := client.New(s.Address())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return s, c.Resource("config")
}

func documents(n int) []document.Document {
	var all []document.Document
	for i := range n {
		text := strings.Repeat("x", 300)
		all = append(all, document.Document{Key: fmt.Sprint("k/", i), Content: document.Content{Text: &text}, Where: "here"})
	}
	return all
}

// A restart of the server during an import costs only time.
func TestImportSurvivesServerRestart(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	s, r := newServer(t, nil)
	const n = 20_000
	plan, err := NewPlan(t.Context(), r, documents(n), Scope{})
	if err != nil {
		t.Fatal(err)
	}
	var restart sync.WaitGroup
	var once sync.Once
	done := 0
	w := Writer{
		Resource: r, Retry: time.Minute,
		Done: func(k int) {
			done += k
			once.Do(func() {
				restart.Go(func() {
					s.Stop()
					s.Start(t)
				})
			})
		},
		Failed: func(c Change, err error) { t.Errorf("%s: %v", c.Key, err) },
	}
	written, failed, err := w.Apply(t.Context(), plan.Changes)
	restart.Wait()
	if err != nil || written != n || failed != 0 || done != n {
		t.Fatalf("%d written, %d failed, %d reported: %v", written, failed, done, err)
	}
	plan, err = NewPlan(t.Context(), r, documents(n), Scope{Prune: true})
	if err != nil || len(plan.Changes) != 0 || plan.Unchanged != n {
		t.Errorf("after the import: %d differences, %v", len(plan.Changes), err)
	}
}

// An import that is interrupted during its last transaction finishes it, and says that it was interrupted.
func TestInterruptDuringTheLastBatchIsReported(t *testing.T) {
	_, r := newServer(t, nil)
	plan, err := NewPlan(t.Context(), r, documents(1), Scope{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, interrupt := context.WithCancelCause(t.Context())
	interrupted := errors.New("interrupted")
	w := Writer{
		Resource: r,
		Done:     func(int) { interrupt(interrupted) },
		Failed:   func(c Change, err error) { t.Errorf("%s: %v", c.Key, err) },
	}
	if written, failed, err := w.Apply(ctx, plan.Changes); written != 1 || failed != 0 || !errors.Is(err, interrupted) {
		t.Errorf("got %d written, %d failed, %v, want 1 written and the interrupt", written, failed, err)
	}
}

// An import follows the server's rate limit, however short its retry time is.
func TestImportFollowsServerRateLimit(t *testing.T) {
	_, r := newServer(t, func(c *config.Config) { c.MaxRequestRate, c.MaxRequestBurst = 20, 2 })
	const n = 1300
	plan, err := NewPlan(t.Context(), r, documents(n), Scope{})
	if err != nil {
		t.Fatal(err)
	}
	w := Writer{
		Resource: r, Retry: time.Millisecond,
		Done:   func(int) {},
		Failed: func(c Change, err error) { t.Errorf("%s: %v", c.Key, err) },
	}
	if written, failed, err := w.Apply(t.Context(), plan.Changes); err != nil || written != n || failed != 0 {
		t.Errorf("%d written, %d failed: %v", written, failed, err)
	}
}

// If the server accepts smaller transactions, or refuses one object, all others are
// written.
func TestRefusedBatchesAreSplit(t *testing.T) {
	_, r := newServer(t, func(c *config.Config) {
		c.MaxTransactionOperations = 10
		c.MaxValueSize = 1000
	})
	plan, err := NewPlan(t.Context(), r, documents(300), Scope{})
	if err != nil {
		t.Fatal(err)
	}
	large := strings.Repeat("x", 1001)
	plan.Changes[123].New.Text = &large
	refused := ""
	w := Writer{
		Resource: r, Done: func(int) {},
		Failed: func(c Change, err error) { refused += c.Key },
	}
	written, failed, err := w.Apply(t.Context(), plan.Changes)
	if err != nil || written != 299 || failed != 1 || refused != plan.Changes[123].Key {
		t.Errorf("%d written, %d failed (%s): %v", written, failed, refused, err)
	}
}

// Pruning an object that does not exist any more succeeds, because an earlier attempt may
// have deleted it without an answer.
func TestPruneCanBeRepeated(t *testing.T) {
	_, r := newServer(t, nil)
	for _, key := range []string{"k/0", "old", "older"} {
		if _, err := r.Put(t.Context(), key, client.Text("x")); err != nil {
			t.Fatal(err)
		}
	}
	plan, err := NewPlan(t.Context(), r, documents(1), Scope{Prune: true})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		w := Writer{Resource: r, Done: func(int) {}, Failed: func(c Change, err error) { t.Errorf("%s: %v", c.Key, err) }}
		if written, failed, err := w.Apply(t.Context(), plan.Changes); err != nil || written != 3 || failed != 0 {
			t.Errorf("%d written, %d failed: %v", written, failed, err)
		}
	}
}

// Pruning keeps objects that another client has written since the plan was made.
func TestPruneKeepsObjectsThatHaveChanged(t *testing.T) {
	_, r := newServer(t, nil)
	for _, key := range []string{"k/0", "old", "busy"} {
		if _, err := r.Put(t.Context(), key, client.Text("x")); err != nil {
			t.Fatal(err)
		}
	}
	plan, err := NewPlan(t.Context(), r, documents(1), Scope{Prune: true})
	if err != nil || plan.Count(Delete) != 2 || plan.Count(Update) != 1 {
		t.Fatalf("%+v, %v", plan, err)
	}
	if _, err := r.Put(t.Context(), "busy", client.Text("y")); err != nil {
		t.Fatal(err)
	}
	spared := ""
	w := Writer{Resource: r, Done: func(int) {}, Failed: func(c Change, _ error) { spared += c.Key }}
	if written, failed, err := w.Apply(t.Context(), plan.Changes); err != nil || written != 2 || failed != 1 || spared != "busy" {
		t.Errorf("%d written, %d failed (%s): %v", written, failed, spared, err)
	}
	if o, err := r.Get(t.Context(), "busy"); err != nil || string(o.Value) != "y" {
		t.Errorf("%+v, %v", o, err)
	}
}
