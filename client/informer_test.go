package client_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/fanoutd/fanoutd/client"
	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// run runs an informer until the test ends.
func run[T any](t *testing.T, i *client.Informer[T]) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := i.Run(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("the informer ended with %v, want %v", err, context.Canceled)
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
}

func TestInformerKeepsACopy(t *testing.T) {
	t.Parallel()
	r := newResource(t)
	put(t, r, "n/a", "1")
	put(t, r, "n/b", "2")
	put(t, r, "m/c", "3")
	inf := client.NewInformer(r, number, client.Prefix("n"))
	inf.AddIndex("parity", func(i client.Item[int]) []string { return []string{[]string{"even", "odd"}[i.Value%2]} })
	calls := newRecorder()
	inf.AddHandler(calls.handler())
	lister := inf.Lister()
	if lister.Len() != 0 || !lister.Stale() || lister.Position() != (client.Position{}) {
		t.Error("the informer has a state before it runs")
	}
	run(t, inf)
	if err := inf.WaitForSync(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if err := inf.WaitForState(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"+n/a=1", "+n/b=2"}, calls.all()); diff != "" {
		t.Errorf("handler calls: -want +got:\n%s", diff)
	}
	put(t, r, "n/a", "4")
	put(t, r, "n/c/d", "5")
	if _, _, err := r.Delete(testContext(t), "n/b"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"*n/a=1>4", "+n/c/d=5", "-n/b=2"}, calls.await(t, 5)[2:]); diff != "" {
		t.Errorf("handler calls: -want +got:\n%s", diff)
	}
	if diff := cmp.Diff([]string{"n/a=4", "n/c/d=5"}, items(lister)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if i, ok := lister.Get("n/a"); !ok || i.Value != 4 || i.Object.Version != 2 {
		t.Errorf("got %v, %v", i, ok)
	}
	if _, ok := lister.Get("n/b"); ok || lister.Len() != 2 || lister.Stale() || lister.Position().Revision == 0 {
		t.Error("the lister does not have the state that the handlers got")
	}
	for value, want := range map[string][]string{"even": {"n/a"}, "odd": {"n/c/d"}, "": nil} {
		var got []string
		for i := range lister.ByIndex("parity", value) {
			got = append(got, i.Object.Key)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %v", value, got)
		}
	}
	for path, want := range map[string]int{"n": 2, "n/": 2, "n/c": 1, "n/a": 0, "m": 0, "": 2} {
		if n := len(slices.Collect(lister.List(path))); n != want {
			t.Errorf("%q has %d items", path, n)
		}
	}
	// An iteration is of one position, whatever changes meanwhile.
	for i := range lister.ByIndex("parity", "even") {
		put(t, r, "n/a0", "6")
		calls.await(t, 6)
		if i.Object.Key != "n/a" {
			t.Errorf("got %s", i.Object.Key)
		}
	}
	if _, _, err := r.Delete(testContext(t), "n/a0"); err != nil {
		t.Fatal(err)
	}
	calls.await(t, 7)
	late := newRecorder()
	inf.AddHandler(late.handler())
	if diff := cmp.Diff([]string{"+n/a=4", "+n/c/d=5"}, late.await(t, 2)); diff != "" {
		t.Errorf("calls of the late handler: -want +got:\n%s", diff)
	}
	if err := inf.Run(t.Context()); err == nil {
		t.Error("the second Run returned no error")
	}
}

func TestInformerShowsTransactionsWhole(t *testing.T) {
	t.Parallel()
	r := newResource(t)
	inf := client.NewInformer(r, number)
	broken, done := 0, make(chan struct{})
	check := func(i client.Item[int]) error {
		values := map[int]bool{}
		for i := range inf.Lister().List("") {
			values[i.Value] = true
		}
		if len(values) != 1 {
			broken++
		}
		if i.Value == 20 && i.Object.Key == "c" {
			close(done)
		}
		return nil
	}
	inf.AddHandler(client.Handler[int]{Add: check, Update: func(_, i client.Item[int]) error { return check(i) }})
	run(t, inf)
	if err := inf.WaitForSync(testContext(t)); err != nil {
		t.Fatal(err)
	}
	for n := range 21 {
		v := client.Text(fmt.Sprint(n))
		if _, err := r.Transact(testContext(t), client.OpPut("a", v), client.OpPut("b", v), client.OpPut("c", v)); err != nil {
			t.Fatal(err)
		}
	}
	<-done
	if broken > 0 {
		t.Errorf("got half a transaction %d times, want 0", broken)
	}
}

func TestDecoders(t *testing.T) {
	t.Parallel()
	type limits struct{ RPS int }
	if v, err := client.JSONDecoder[limits]()(&client.Object{Value: []byte(`{"rps": 5}`)}); err != nil || v.RPS != 5 {
		t.Errorf("got %v, %v", v, err)
	}
	if _, err := client.JSONDecoder[limits]()(&client.Object{Value: []byte(`{`)}); err == nil {
		t.Error("half a JSON document was decoded")
	}
	decode := client.ProtoDecoder[*fanoutv1.Position]()
	want := &fanoutv1.Position{Epoch: "e", Revision: 5}
	binary, err := proto.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []*client.Object{{Value: binary}, {Value: []byte(`{"epoch": "e", "revision": 5}`), ContentType: "application/json"}} {
		if v, err := decode(o); err != nil || !proto.Equal(v, want) {
			t.Errorf("got %v, %v", v, err)
		}
	}
	if _, err := decode(&client.Object{Value: []byte("x")}); err == nil {
		t.Error("a value that is no message was decoded")
	}
}

func TestInformerEndsWithItsWatch(t *testing.T) {
	t.Parallel()
	c := newClient(t, newServer(t).Address())
	inf := client.NewInformer(c.Resource("nothing"), number)
	if err := inf.Run(testContext(t)); !errors.Is(err, client.ErrUnknownResource) {
		t.Errorf("ended with %v", err)
	}
	if err := inf.WaitForSync(testContext(t)); !errors.Is(err, client.ErrUnknownResource) {
		t.Errorf("got %v", err)
	}
}
