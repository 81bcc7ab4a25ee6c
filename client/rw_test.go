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

func TestWhatIsPutIsRead(t *testing.T) {
	t.Parallel()
	r, ctx := newResource(t), within(t)
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
		t.Error("a function was encoded")
	}
}

func TestListReturnsAllPagesOfOneRevision(t *testing.T) {
	t.Parallel()
	r, ctx := newResource(t), within(t)
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
		t.Errorf("the position is %v", at)
	}
	page, err := r.ListPage(ctx, client.Prefix("team"), client.PageSize(4))
	if err != nil {
		t.Fatal(err)
	}
	if len(page.Objects) != 4 || page.Next == "" || page.Remaining == nil || *page.Remaining != 7 {
		t.Errorf("the first page is %+v", page)
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
		t.Errorf("%d errors", count)
	}
}

func TestPreconditions(t *testing.T) {
	t.Parallel()
	r, ctx := newResource(t), within(t)
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

func TestTransactionsAreAllOrNothing(t *testing.T) {
	t.Parallel()
	r, ctx := newResource(t), within(t)
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
		t.Error("a function was encoded")
	}
}

// Everybody counts, and no count is lost.
func TestUpdatesDoNotOverwriteEachOther(t *testing.T) {
	t.Parallel()
	r, ctx := newResource(t), within(t)
	const counters, times = 5, 10
	var all sync.WaitGroup
	for range counters {
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
	if string(got.Value) != strconv.Itoa(counters*times) {
		t.Errorf("counted to %s", got.Value)
	}
	at, err := r.Update(ctx, "count", func(*client.Object) (*client.Value, error) { return nil, nil })
	if err != nil || at != got.ModRevision {
		t.Errorf("nothing to update: got %d, %v", at, err)
	}
	unwilling := errors.New("unwilling")
	if _, err := r.Update(ctx, "count", func(*client.Object) (*client.Value, error) { return nil, unwilling }); !errors.Is(err, unwilling) {
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

func TestErrorsOfContextsAreThemselves(t *testing.T) {
	t.Parallel()
	r := newClient(t, listen(t).Addr().String()).Resource("config") // where nobody answers
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Get(ctx, "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
