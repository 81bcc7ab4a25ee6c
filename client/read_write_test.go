package client_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fanoutd/fanoutd/client"
)

func TestPutStoresWhatGetReturns(t *testing.T) {
	t.Parallel()
	r, ctx := newResource(t), testContext(t)
	for name, c := range map[string]struct {
		value client.Value
		want  client.Object
	}{
		"json": {
			client.JSON(map[string]int{"rps": 1}).WithLabels(map[string]string{"env": "prod"}),
			client.Object{Value: []byte(`{"rps":1}`), ContentType: "application/json", Labels: map[string]string{"env": "prod"}},
		},
		"text":  {client.Text("grün"), client.Object{Value: []byte("grün"), ContentType: "text/plain; charset=utf-8"}},
		"bytes": {client.Bytes([]byte{0xff, 0}), client.Object{Value: []byte{0xff, 0}, ContentType: "application/octet-stream"}},
		"empty": {client.Bytes(nil), client.Object{Value: []byte{}, ContentType: "application/octet-stream"}},
		"typed": {client.Bytes([]byte("a: 1")).WithContentType("application/yaml"), client.Object{Value: []byte("a: 1"), ContentType: "application/yaml"}},
	} {
		revision, err := r.Put(ctx, name, c.value)
		if err != nil {
			t.Fatal(err)
		}
		got, err := r.Get(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		c.want.Key, c.want.Version, c.want.CreateRevision, c.want.ModRevision = name, 1, revision, revision
		if diff := cmp.Diff(&c.want, got); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
		again, err := r.Put(ctx, name, got.AsValue(), client.IfRevision(revision))
		if err != nil {
			t.Fatal(err)
		}
		c.want.Version, c.want.ModRevision = 2, again
		if got, err = r.Get(ctx, name, client.MinRevision(again)); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(&c.want, got); diff != "" {
			t.Errorf("written as it was read: -want +got:\n%s", diff)
		}
	}
	if _, err := r.Put(ctx, "x", client.JSON(func() {})); err == nil {
		t.Error("a function was encoded as JSON")
	}
}

// An object without its value must not be written as one with an empty value.
func TestUnknownValuesAreNotWritten(t *testing.T) {
	t.Parallel()
	r, ctx := newResource(t), testContext(t)
	put(t, r, "a", "1")
	var unknown *client.Object
	for u, err := range r.Watch(ctx, client.OmitValues()) {
		if err != nil {
			t.Fatal(err)
		}
		if len(u.Events) > 0 {
			unknown = u.Events[0].Object
			break
		}
	}
	value := unknown.AsValue().WithLabels(map[string]string{"env": "prod"}).WithContentType("text/plain")
	if _, err := r.Put(ctx, "a", value); !errors.Is(err, client.ErrUnknownValue) {
		t.Errorf("Put: got %v, want %v", err, client.ErrUnknownValue)
	}
	if _, err := r.Transact(ctx, client.OpPut("b", client.Text("2")), client.OpPut("a", value)); !errors.Is(err, client.ErrUnknownValue) {
		t.Errorf("Transact: got %v, want %v", err, client.ErrUnknownValue)
	}
	if _, err := r.Update(ctx, "a", func(*client.Object) (*client.Value, error) { return &value, nil }); !errors.Is(err, client.ErrUnknownValue) {
		t.Errorf("Update: got %v, want %v", err, client.ErrUnknownValue)
	}
	if o, err := r.Get(ctx, "a"); err != nil || string(o.Value) != "1" || o.Version != 1 {
		t.Errorf("got %+v and %v, want the object as it was", o, err)
	}
	value.Data = []byte{} // now it is known to be empty
	if _, err := r.Put(ctx, "a", value); err != nil {
		t.Errorf("Put with data: got %v", err)
	}
}

func TestListReturnsAllPagesOfOneRevision(t *testing.T) {
	t.Parallel()
	r, ctx := newResource(t), testContext(t)
	var want []string
	for i := range 10 {
		key := fmt.Sprintf("team/%d", i)
		put(t, r, key, "x")
		want = append(want, key)
	}
	put(t, r, "other", "x")
	var got []string
	var at client.Position
	for o, err := range r.List(ctx, client.Prefix("team"), client.PageSize(3), client.ListPosition(&at)) {
		if err != nil {
			t.Fatal(err)
		}
		if got = append(got, o.Key); len(got) == 1 {
			put(t, r, "team/5a", "too late")
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if at.Epoch == "" || at.Revision == 0 {
		t.Errorf("got position %v, want an epoch and a revision", at)
	}
	page, err := r.ListPage(ctx, client.Prefix("team"), client.PageSize(4))
	if err != nil {
		t.Fatal(err)
	}
	if len(page.Objects) != 4 || page.Next == "" || page.Remaining == nil || *page.Remaining != 7 {
		t.Errorf("got first page %+v, want 4 objects, a token and 7 remaining objects", page)
	}
	for o, err := range r.List(ctx, client.Key("team/3"), client.AtRevision(at.Revision)) {
		if err != nil || o.Key != "team/3" {
			t.Errorf("got %v, %v", o, err)
		}
	}
	count := 0
	for _, err := range r.List(ctx, client.Labels("not a selector")) {
		if count++; !errors.Is(err, client.ErrInvalidRequest) {
			t.Errorf("got %v", err)
		}
	}
	if count != 1 {
		t.Errorf("got %d values, want 1 error", count)
	}
}

func TestPreconditions(t *testing.T) {
	t.Parallel()
	r, ctx := newResource(t), testContext(t)
	first, err := r.Put(ctx, "a", client.Text("1"), client.IfAbsent())
	if err != nil {
		t.Fatal(err)
	}
	_, err = r.Put(ctx, "a", client.Text("2"), client.IfAbsent())
	failed, ok := errors.AsType[*client.Error](err)
	if !errors.Is(err, client.ErrPreconditionFailed) || !ok || failed.Metadata["mod_revision"] != strconv.FormatInt(first, 10) {
		t.Errorf("got %v", err)
	}
	if _, _, err := r.Delete(ctx, "a", client.IfRevision(first+1)); !errors.Is(err, client.ErrPreconditionFailed) {
		t.Errorf("got %v", err)
	}
	if _, deleted, err := r.Delete(ctx, "a", client.IfRevision(first)); err != nil || !deleted {
		t.Errorf("got %v, %v", deleted, err)
	}
	if _, deleted, err := r.Delete(ctx, "a"); err != nil || deleted {
		t.Errorf("got %v, %v", deleted, err)
	}
	if _, err := r.Get(ctx, "a"); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("got %v", err)
	}
}

func TestCount(t *testing.T) {
	t.Parallel()
	r, ctx := newResource(t), testContext(t)
	put(t, r, "a/1", "1")
	put(t, r, "a/2", "2")
	put(t, r, "b", "3")
	for want, opts := range map[int64][]client.ListOption{3: nil, 2: {client.Prefix("a")}, 1: {client.Fields("name=2")}, 0: {client.Prefix("none")}} {
		if got, err := r.Count(ctx, opts...); err != nil || got != want {
			t.Errorf("got %d, %v; want %d", got, err, want)
		}
	}
}

func TestTransactionsAreAllOrNothing(t *testing.T) {
	t.Parallel()
	r, ctx := newResource(t), testContext(t)
	a := put(t, r, "a", "1")
	if _, err := r.Transact(ctx, client.OpPut("b", client.Text("1")), client.OpCheck("a", 0)); !errors.Is(err, client.ErrPreconditionFailed) {
		t.Errorf("got %v", err)
	}
	if _, err := r.Get(ctx, "b"); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("got %v", err)
	}
	done, err := r.Transact(ctx, client.OpPut("b", client.Text("1"), client.IfAbsent(), client.TTL(time.Hour)), client.OpDelete("a", client.IfRevision(a)), client.OpCheck("c", 0))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&client.Transaction{Revision: a + 1, Deleted: []bool{false, true, false}}, done); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if _, err := r.Transact(ctx, client.OpPut("b", client.JSON(func() {}))); err == nil {
		t.Error("a function was encoded as JSON")
	}
}

func TestTryWritesReturnObjects(t *testing.T) {
	t.Parallel()
	r, ctx := newResource(t), testContext(t)
	a := put(t, r, "a", "1")
	current, err := r.Get(ctx, "a")
	if err != nil {
		t.Fatal(err)
	}
	want := func(what string, got *client.Outcome, err error, want *client.Outcome) {
		t.Helper()
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v, -want +got:\n%s", what, err, diff)
		}
	}
	got, err := r.TryPut(ctx, "a", client.Text("2"), client.IfAbsent())
	want("put that is not applied", got, err, &client.Outcome{Revision: a, Object: current})
	got, err = r.TryDelete(ctx, "a", client.IfRevision(a-1))
	want("delete that is not applied", got, err, &client.Outcome{Revision: a, Object: current})
	got, err = r.TryDelete(ctx, "a")
	want("delete", got, err, &client.Outcome{Applied: true, Revision: a + 1, Deleted: true, Object: current})
	got, err = r.TryPut(ctx, "a", client.Text("2"), client.IfAbsent())
	want("put", got, err, &client.Outcome{Applied: true, Revision: a + 2})
}

func TestUpdateKeepsTheTimeToLive(t *testing.T) {
	t.Parallel()
	r, ctx := newResource(t), testContext(t)
	if _, err := r.Put(ctx, "a", client.Text("1"), client.TTL(time.Hour)); err != nil {
		t.Fatal(err)
	}
	want := func(what string, least, most time.Duration) {
		t.Helper()
		got, err := r.Get(ctx, "a")
		if err != nil || got.HasTTL != (most > 0) || got.TTL < least || got.TTL > most {
			t.Errorf("%s: got HasTTL %v and TTL %v, %v; want from %v to %v", what, got.HasTTL, got.TTL, err, least, most)
		}
	}
	change := func(*client.Object) (*client.Value, error) { return new(client.Text("2")), nil }
	want("put", 30*time.Minute, time.Hour)
	if _, err := r.Update(ctx, "a", change); err != nil {
		t.Fatal(err)
	}
	want("update", 30*time.Minute, time.Hour)
	if _, err := r.Update(ctx, "a", change, client.TTL(3*time.Hour)); err != nil {
		t.Fatal(err)
	}
	want("update with another one", 2*time.Hour, 3*time.Hour)
	if _, err := r.Put(ctx, "a", client.Text("3")); err != nil {
		t.Fatal(err)
	}
	want("put without one", 0, 0)
}

func TestUpdatesDoNotOverwriteEachOther(t *testing.T) {
	t.Parallel()
	r, ctx := newResource(t), testContext(t)
	const updaters, times = 5, 10
	var all sync.WaitGroup
	for range updaters {
		all.Go(func() {
			for range times {
				if _, err := r.Update(ctx, "count", increment); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	got, err := r.Get(ctx, "count")
	if err != nil {
		t.Fatal(err)
	}
	if string(got.Value) != strconv.Itoa(updaters*times) {
		t.Errorf("got %s, want %d", got.Value, updaters*times)
	}
	at, err := r.Update(ctx, "count", func(*client.Object) (*client.Value, error) { return nil, nil })
	if err != nil || at != got.ModRevision {
		t.Errorf("update without a change: got %d and %v, want %d", at, err, got.ModRevision)
	}
	refused := errors.New("refused")
	if _, err := r.Update(ctx, "count", func(*client.Object) (*client.Value, error) { return nil, refused }); !errors.Is(err, refused) {
		t.Errorf("got %v", err)
	}
}

func increment(old *client.Object) (*client.Value, error) {
	n := 0
	if old != nil {
		var err error
		if n, err = strconv.Atoi(string(old.Value)); err != nil {
			return nil, err
		}
	}
	return new(client.Text(strconv.Itoa(n + 1))), nil
}

func TestACanceledRequestReturnsTheErrorOfItsContext(t *testing.T) {
	t.Parallel()
	r := newClient(t, listen(t).Addr().String()).Resource("config") // accepts connections and never answers
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Get(ctx, "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
