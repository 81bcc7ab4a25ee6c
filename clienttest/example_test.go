package clienttest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/clienttest"
)

// Router is the program under test: it keeps backends by region.
type Router struct{ backends *client.Informer[string] }

func NewRouter(config *client.Resource) *Router {
	text := func(o *client.Object) (string, error) { return string(o.Value), nil }
	return &Router{client.NewInformer(config, text, client.Prefix("routes"))}
}

func (r *Router) Backend(region string) string {
	backend, _ := r.backends.Lister().Get("routes/" + region)
	return backend.Value
}

// A test of a program that has an informer. The t of a test is a *testing.T.
func Example() {
	t := &exampleTest{}
	defer t.end()

	s := clienttest.NewServer(t, "config")
	config := s.Client().Resource("config")
	if _, err := config.Put(t.Context(), "routes/eu", client.Text("b1")); err != nil {
		t.Fatal(err)
	}
	router := NewRouter(config)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- router.backends.Run(ctx) }()
	if err := router.backends.WaitForSync(ctx); err != nil {
		t.Fatal(err)
	}
	fmt.Println(router.Backend("eu"))
	stop()
	<-done
	// Output: b1
}

// The program refuses a value, and an operator sees why.
func Example_refusal() {
	t := &exampleTest{}
	defer t.end()

	s := clienttest.NewServer(t, "config")
	c := s.Client()
	config := c.Resource("config")
	limits := client.NewInformer(config, client.JSONDecoder[struct{ RPS int }](), client.Key("shop/limits"))
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- limits.Run(ctx) }()

	revision, err := config.Put(ctx, "shop/limits", client.Text(`{"rps": "many"}`))
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.Wait(ctx, client.WaitOptions{
		Servers: []client.Server{{Address: "test", Client: c}}, Resource: "config", Revision: revision, MinWatches: 1,
	})
	if refused, ok := errors.AsType[*client.RefusedError](err); ok {
		fmt.Println(refused.Failures()[0].Err)
	}
	stop()
	<-done
	// Output: object "shop/limits" at revision 2: decode JSON: json: cannot unmarshal string into Go struct field .RPS of type int
}

// A watch that was away for too long starts over.
func ExampleServer_ExpirePositions() {
	t := &exampleTest{}
	defer t.end()

	s := clienttest.NewServer(t, "config")
	config := s.Client().Resource("config")
	resets := 0
	for u, err := range config.Watch(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if u.Phase == client.PhaseReset {
			resets++
		}
		if u.Phase == client.PhaseSynced && resets == 1 {
			s.ExpirePositions()
		}
		if resets == 2 {
			break
		}
	}
	fmt.Println("the watch has started over")
	// Output: the watch has started over
}

// exampleTest stands for the *testing.T of a test.
type exampleTest struct {
	testing.TB
	cleanups []func()
}

func (t *exampleTest) Helper()                  {}
func (t *exampleTest) Context() context.Context { return context.Background() }
func (t *exampleTest) Cleanup(f func())         { t.cleanups = append(t.cleanups, f) }
func (t *exampleTest) Fatal(args ...any)        { panic(fmt.Sprint(args...)) }

func (t *exampleTest) end() {
	for _, f := range slices.Backward(t.cleanups) {
		f()
	}
}
