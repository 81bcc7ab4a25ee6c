// Command workqueue works on each object below a prefix with several workers, until the present
// state of each has succeeded once.
//
//	go run ./examples/go/workqueue SERVER RESOURCE PREFIX
//
// A handler of an informer gets one change after another, and retries on its own. Use a queue
// if the work is slow, and can be done for several objects at the same time. Then a report only
// confirms that the informer has a change: the client cannot know when the queue is done with it.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"sync"

	"github.com/fanoutd/fanoutd/client"
)

const workers = 4

func main() {
	if len(os.Args) != 4 {
		log.Fatal("usage: workqueue SERVER RESOURCE PREFIX")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	c, err := client.New(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	if err := run(ctx, c.Resource(os.Args[2]), os.Args[3], work); ctx.Err() == nil {
		log.Print(err)
	}
}

// work is the work on an object. The value is nil if there is no object with the key.
func work(_ context.Context, key string, value *string) error {
	if value == nil {
		fmt.Println("removed", key)
		return nil
	}
	fmt.Println("applied", key, *value)
	return nil
}

// run calls work for each object below the prefix, and again when it has changed.
func run(ctx context.Context, r *client.Resource, prefix string, work func(ctx context.Context, key string, value *string) error) error {
	text := func(o *client.Object) (string, error) { return string(o.Value), nil }
	objects := client.NewInformer(r, text, client.Prefix(prefix))
	keys := newQueue()
	add := func(i client.Item[string]) error { keys.add(i.Object.Key); return nil }
	objects.AddHandler(client.Handler[string]{
		Add: add, Delete: add, Update: func(_, i client.Item[string]) error { return add(i) },
	})
	var working sync.WaitGroup
	defer working.Wait()
	defer keys.close()
	for range workers {
		working.Go(func() {
			for {
				key, ok := keys.take()
				if !ok {
					return
				}
				var value *string
				if item, ok := objects.Lister().Get(key); ok {
					value = &item.Value
				}
				err := work(ctx, key, value)
				if err != nil {
					log.Printf("%s: %v", key, err)
				}
				keys.done(key, err)
			}
		})
	}
	return objects.Run(ctx)
}
