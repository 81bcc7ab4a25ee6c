package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/fanoutd/fanoutd/client"
)

// address is that of the server of the examples, which TestMain starts.
var address string

func ExampleNew() {
	c, err := client.New(address)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if _, err := c.Resource("config").Put(ctx, "greeting", client.Text("hello")); err != nil {
		log.Fatal(err)
	}
	o, err := c.Resource("config").Get(ctx, "greeting")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s: %s (%s)\n", o.Key, o.Value, o.ContentType)
	// Output: greeting: hello (text/plain; charset=utf-8)
}

func ExampleResource_Get() {
	config, ctx, done := connect()
	defer done()
	_, err := config.Get(ctx, "no/such/key")
	if errors.Is(err, client.ErrNotFound) {
		fmt.Println("no such object")
	}
	// Output: no such object
}

func ExampleResource_List() {
	config, ctx, done := connect()
	defer done()
	for _, key := range []string{"list/b", "list/a", "list/c/d"} {
		if _, err := config.Put(ctx, key, client.Text("x")); err != nil {
			log.Fatal(err)
		}
	}
	for o, err := range config.List(ctx, client.Prefix("list")) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(o.Key)
	}
	// Output:
	// list/a
	// list/b
	// list/c/d
}

func ExampleResource_Put() {
	config, ctx, done := connect()
	defer done()
	limits := client.JSON(map[string]int{"rps": 100}).WithLabels(map[string]string{"env": "prod"})
	revision, err := config.Put(ctx, "put/limits", limits, client.IfAbsent())
	if err != nil {
		log.Fatal(err)
	}
	// A second writer cannot create the object again.
	_, err = config.Put(ctx, "put/limits", client.JSON(nil), client.IfAbsent())
	fmt.Println(errors.Is(err, client.ErrPreconditionFailed))
	// A writer that has read this revision can replace it.
	_, err = config.Put(ctx, "put/limits", limits, client.IfRevision(revision))
	fmt.Println(err)
	// Output:
	// true
	// <nil>
}

func ExampleResource_Delete() {
	config, ctx, done := connect()
	defer done()
	if _, err := config.Put(ctx, "delete/a", client.Text("x")); err != nil {
		log.Fatal(err)
	}
	for range 2 {
		_, deleted, err := config.Delete(ctx, "delete/a")
		fmt.Println(deleted, err)
	}
	// Output:
	// true <nil>
	// false <nil>
}

func ExampleResource_Transact() {
	config, ctx, done := connect()
	defer done()
	t, err := config.Transact(ctx,
		client.OpPut("transact/blue", client.Text("live"), client.IfAbsent()),
		client.OpDelete("transact/green"),
		client.OpCheck("transact/lock", 0), // there is no lock
	)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(t.Revision > 0, t.Deleted)
	// Output: true [false false false]
}

func ExampleResource_Update() {
	config, ctx, done := connect()
	defer done()
	for range 3 {
		_, err := config.Update(ctx, "update/dots", func(old *client.Object) (*client.Value, error) {
			dots := "."
			if old != nil {
				dots += string(old.Value)
			}
			return new(client.Text(dots)), nil
		})
		if err != nil {
			log.Fatal(err)
		}
	}
	o, err := config.Get(ctx, "update/dots")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", o.Value)
	// Output: ...
}

func ExampleResource_Watch() {
	config, ctx, done := connect()
	defer done()
	if _, err := config.Put(ctx, "watch/a", client.Text("1")); err != nil {
		log.Fatal(err)
	}
	have := map[string]string{}
	for u, err := range config.Watch(ctx, client.Prefix("watch")) {
		if err != nil {
			log.Fatal(err)
		}
		if u.Phase == client.PhaseReset {
			clear(have)
		}
		for _, e := range u.Events {
			if e.Type == client.Deleted {
				delete(have, e.Object.Key)
			} else {
				have[e.Object.Key] = string(e.Object.Value)
			}
			fmt.Println(e.Type, e.Object.Key)
		}
		if u.Phase == client.PhaseSynced {
			if _, _, err := config.Delete(ctx, "watch/a"); err != nil {
				log.Fatal(err)
			}
		}
		if u.Phase.Complete() && len(have) == 0 {
			break // or go on for months
		}
	}
	// Output:
	// ADDED watch/a
	// DELETED watch/a
}

func ExampleInformer() {
	config, ctx, done := connect()
	defer done()
	type route struct{ Region, Backend string }
	for key, r := range map[string]route{"routes/a": {"eu", "one"}, "routes/b": {"us", "two"}, "routes/c": {"eu", "three"}} {
		if _, err := config.Put(ctx, key, client.JSON(r)); err != nil {
			log.Fatal(err)
		}
	}

	routes := client.NewInformer(config, client.JSONDecoder[route](), client.Prefix("routes"))
	routes.AddIndex("region", func(i client.Item[route]) []string { return []string{i.Value.Region} })
	changed := make(chan string)
	routes.AddHandler(client.Handler[route]{
		Update: func(old, i client.Item[route]) error {
			changed <- fmt.Sprintf("%s: %s -> %s", i.Object.Key, old.Value.Backend, i.Value.Backend)
			return nil
		},
	})
	stop := background(ctx, routes.Run)
	defer stop()
	if err := routes.WaitForSync(ctx); err != nil {
		log.Fatal(err)
	}

	for i := range routes.Lister().ByIndex("region", "eu") {
		fmt.Println(i.Object.Key, i.Value.Backend)
	}
	if _, err := config.Put(ctx, "routes/b", client.JSON(route{"us", "four"})); err != nil {
		log.Fatal(err)
	}
	fmt.Println(<-changed)
	// Output:
	// routes/a one
	// routes/c three
	// routes/b: two -> four
}

func ExampleLastKnownGood() {
	config, ctx, done := connect()
	defer done()
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	saved := client.LastKnownGood(filepath.Join(dir, "limits"), 16<<20)
	if _, err := config.Put(ctx, "saved/rps", client.JSON(100)); err != nil {
		log.Fatal(err)
	}

	// A program runs and ends.
	limits := client.NewInformer(config, client.JSONDecoder[int](), client.Prefix("saved"), saved)
	stop := background(ctx, limits.Run)
	if err := limits.WaitForSync(ctx); err != nil {
		log.Fatal(err)
	}
	stop()

	// It starts again while no server can be reached.
	away, err := client.New("127.0.0.1:1")
	if err != nil {
		log.Fatal(err)
	}
	defer away.Close()
	limits = client.NewInformer(away.Resource("config"), client.JSONDecoder[int](), client.Prefix("saved"), saved)
	stop = background(ctx, limits.Run)
	defer stop()
	if err := limits.WaitForState(ctx); err != nil {
		log.Fatal(err)
	}
	i, ok := limits.Lister().Get("saved/rps")
	fmt.Println(i.Value, ok, limits.Lister().Stale())
	// Output: 100 true true
}

// connect returns a resource, a context with a time limit, and a function that closes both.
func connect() (*client.Resource, context.Context, func()) {
	c, err := client.New(address)
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	return c.Resource("config"), ctx, func() {
		cancel()
		c.Close()
	}
}

// background runs an informer until stop is called.
func background(ctx context.Context, run func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error)
	go func() { done <- run(ctx) }()
	return func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			log.Print(err)
		}
	}
}
