package transfer

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/internal/config"
)

// importUndoably imports documents over existing objects, and returns what takes that back.
func importUndoably(t *testing.T, r *client.Resource, n int) *Undo {
	t.Helper()
	plan, err := NewPlan(t.Context(), r, documents(n), Scope{Prune: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := ReadOld(t.Context(), r, plan.Changes); err != nil {
		t.Fatal(err)
	}
	u := &Undo{Resource: r, Retry: time.Minute, Message: func(at int64) string { return fmt.Sprint("undo ", at) }}
	w := Writer{Resource: r, Undo: u, Done: func(int) {}, Failed: func(c Change, err error) { t.Errorf("%s: %v", c.Key, err) }}
	if _, failed, err := w.Apply(t.Context(), plan.Changes); err != nil || failed != 0 {
		t.Fatalf("%d failed: %v", failed, err)
	}
	return u
}

// An import of several transactions is taken back, except what was written since. Those objects do not keep the others of
// their transaction.
func TestUndoLeavesWhatWasWrittenSince(t *testing.T) {
	_, r := newServer(t, nil)
	put := func(key, value string) {
		t.Helper()
		if _, err := r.Put(t.Context(), key, client.Text(value).WithLabels(map[string]string{"a": "b"})); err != nil {
			t.Fatal(err)
		}
	}
	const n = 300
	for i := range 100 {
		put(fmt.Sprint("k/", i), "old")
	}
	put("pruned", "old")
	u := importUndoably(t, r, n)
	put("k/5", "theirs")
	put("k/250", "theirs")
	if _, _, err := r.Delete(t.Context(), "k/6"); err != nil {
		t.Fatal(err)
	}
	got := map[string]Undone{}
	for _, d := range u.TakeBack(t.Context()) {
		got[d.Key] = d
	}
	if len(got) != n+1 {
		t.Errorf("got %d outcomes, want %d", len(got), n+1)
	}
	for key, d := range got {
		want, value := Restored, ""
		switch {
		case key == "k/5" || key == "k/250":
			want, value = Superseded, "theirs"
		case key == "k/6":
			want = Superseded
		case d.Old != nil:
			value = "old"
		}
		if d.Outcome != want || d.Err != nil {
			t.Errorf("%s: got outcome %d (%v), want %d", key, d.Outcome, d.Err, want)
		}
		o, err := r.Get(t.Context(), key)
		switch {
		case value == "" && err == nil:
			t.Errorf("%s exists: %s", key, o.Value)
		case value != "" && (err != nil || string(o.Value) != value || o.Labels["a"] != "b" || o.ModRevision != d.Revision):
			t.Errorf("%s: got %+v, %v; want %q at revision %d", key, o, err, value, d.Revision)
		}
	}
}

// An import that is to be undone does not replace what has changed since the plan was made.
func TestUndoableImportsReplaceOnlyWhatThePlanSaw(t *testing.T) {
	_, r := newServer(t, nil)
	plan, err := NewPlan(t.Context(), r, documents(3), Scope{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Put(t.Context(), "k/1", client.Text("theirs")); err != nil {
		t.Fatal(err)
	}
	u := &Undo{Resource: r, Message: func(int64) string { return "" }}
	refused := ""
	w := Writer{Resource: r, Undo: u, Done: func(int) {}, Failed: func(c Change, _ error) { refused += c.Key }}
	if written, failed, err := w.Apply(t.Context(), plan.Changes); err != nil || written != 2 || failed != 1 || refused != "k/1" {
		t.Errorf("%d written, %d failed (%s): %v", written, failed, refused, err)
	}
	for _, d := range u.TakeBack(t.Context()) {
		if d.Outcome != Restored || d.Key == "k/1" {
			t.Errorf("%+v", d)
		}
	}
	if n, err := r.Count(t.Context()); err != nil || n != 1 {
		t.Errorf("%d objects are left, want 1: %v", n, err)
	}
}

// forgetful returns the resource of a client that loses the answer of every transaction while lose is set.
func forgetful(t *testing.T, address string, lose *atomic.Bool) *client.Resource {
	t.Helper()
	c, err := client.New(address, client.WithDialOptions(grpc.WithChainUnaryInterceptor(
		func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			err := invoke(ctx, method, req, reply, cc, opts...)
			if err == nil && strings.HasSuffix(method, "/Transact") && lose.Load() {
				return status.Error(codes.Unavailable, "the answer is lost")
			}
			return err
		})))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c.Resource("config")
}

// An attempt whose answer is lost is repeated. What it has restored counts as restored, unless it has been written since.
func TestUndoFindsOutAboutLostAnswers(t *testing.T) {
	s, r := newServer(t, nil)
	if _, err := r.Put(t.Context(), "k/0", client.Text("old")); err != nil {
		t.Fatal(err)
	}
	u := importUndoably(t, r, 3)
	var lose atomic.Bool
	lose.Store(true)
	u.Resource = forgetful(t, s.Address(), &lose)
	for _, d := range u.TakeBack(t.Context()) {
		if d.Outcome != Restored || d.Err != nil {
			t.Errorf("%s: got outcome %d (%v)", d.Key, d.Outcome, d.Err)
		}
	}
	if o, err := r.Get(t.Context(), "k/0"); err != nil || string(o.Value) != "old" {
		t.Errorf("%+v, %v", o, err)
	}
	if n, err := r.Count(t.Context()); err != nil || n != 1 {
		t.Errorf("%d objects are left, want 1: %v", n, err)
	}
}

// A write whose answer is lost is not taken back, because another client may have written the object. The outcome says so.
func TestWritesOfUnknownOutcomeAreNotTakenBack(t *testing.T) {
	s, r := newServer(t, nil)
	var lose atomic.Bool
	lose.Store(true)
	lossy := forgetful(t, s.Address(), &lose)
	plan, err := NewPlan(t.Context(), r, documents(3), Scope{})
	if err != nil {
		t.Fatal(err)
	}
	u := &Undo{Resource: r, Message: func(int64) string { return "" }}
	w := Writer{Resource: lossy, Retry: time.Minute, Undo: u, Done: func(int) {}, Failed: func(Change, error) {}}
	if written, failed, err := w.Apply(t.Context(), plan.Changes); err != nil || written != 0 || failed != 3 {
		t.Errorf("%d written, %d failed: %v", written, failed, err)
	}
	done := u.TakeBack(t.Context())
	if len(done) != 3 {
		t.Errorf("got %+v", done)
	}
	for _, d := range done {
		if d.Outcome != Unknown {
			t.Errorf("%s: got outcome %d", d.Key, d.Outcome)
		}
	}
	if n, err := r.Count(t.Context()); err != nil || n != 3 {
		t.Errorf("%d objects, want 3: %v", n, err)
	}
}

// Old values can be larger than the new ones: more than fit into one request.
func TestUndoSplitsWhatIsTooLarge(t *testing.T) {
	_, r := newServer(t, func(cfg *config.Config) { cfg.MaxValueSize, cfg.MaxRequestSize = 64*config.KiB, 128*config.KiB })
	large := string(make([]byte, 40<<10))
	for i := range 10 {
		if _, err := r.Put(t.Context(), fmt.Sprint("k/", i), client.Bytes([]byte(large))); err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range importUndoably(t, r, 10).TakeBack(t.Context()) {
		if d.Outcome != Restored {
			t.Errorf("%s: %d, %v", d.Key, d.Outcome, d.Err)
		}
		if o, err := r.Get(t.Context(), d.Key); err != nil || string(o.Value) != large {
			t.Errorf("%s is not restored: %v", d.Key, err)
		}
	}
}

func TestCommonPath(t *testing.T) {
	for want, keys := range map[string][]string{
		"":      {"a/b", "c/d"},
		"a":     {"a/b", "a/c/d"},
		"a/b":   {"a/b/c", "a/b/d", "a/b/e/f"},
		"a/b/c": {"a/b/c/d"},
	} {
		if got := CommonPath(keys); got != want {
			t.Errorf("%v: got %q, want %q", keys, got, want)
		}
	}
	if got := CommonPath([]string{"a", "a/b"}); got != "" { // the object "a" is not below the path "a"
		t.Errorf("got %q", got)
	}
}
