// Command subscribe keeps a copy of the objects below a prefix, and prints its changes.
//
//	go run ./examples/go/subscribe SERVER RESOURCE PREFIX STATE_FILE
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"

	"github.com/fanoutd/fanoutd/client"
)

func text(o *client.Object) (string, error) { return string(o.Value), nil }

func main() {
	if len(os.Args) != 5 {
		log.Fatal("usage: subscribe SERVER RESOURCE PREFIX STATE_FILE")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	c, err := client.New(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	informer := client.NewInformer(c.Resource(os.Args[2]), text, client.Prefix(os.Args[3]), client.LastKnownGood(os.Args[4], 64<<20))
	informer.AddHandler(client.Handler[string]{
		Add:    func(i client.Item[string]) error { return show("added", i.Object.Key, i.Value) },
		Update: func(_, i client.Item[string]) error { return show("modified", i.Object.Key, i.Value) },
		Delete: func(i client.Item[string]) error { return show("deleted", i.Object.Key, "") },
	})
	if err := informer.Run(ctx); ctx.Err() == nil {
		log.Print(err)
	}
}

func show(what, key, value string) error {
	fmt.Println(what, key, value)
	return nil
}
