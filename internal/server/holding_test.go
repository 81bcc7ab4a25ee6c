package server

import (
	"context"
	"log/slog"
	"sync"
	"testing"

	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/backend"
	"github.com/fanoutd/fanoutd/internal/wire"
	"github.com/fanoutd/fanoutd/test/cachertest"
)

// holding returns a server without connections, and the store of its only resource, "r".
func holding(tb testing.TB) (*Server, *cachertest.Memory) {
	tb.Helper()
	codec, err := object.CodecByName("raw")
	if err != nil {
		tb.Fatal(err)
	}
	memory := cachertest.NewMemory()
	log := slog.New(slog.DiscardHandler)
	c := cacher.New(cacher.Config{Resource: "r", Store: memory, Codec: codec, Preencode: wire.Preencode, Log: log})
	d := dispatch.New(dispatch.Config{Source: c, Encoder: wire.Encoder{}})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { c.Run(ctx) })
	running.Go(func() { d.Run(ctx) })
	srv := New(Config{Resources: []backend.Resource{{Name: "r", Codec: codec, Cacher: c, Dispatcher: d}}, Log: log})
	tb.Cleanup(func() {
		cancel()
		running.Wait()
		srv.Stop(context.Background())
	})
	<-c.Ready()
	return srv, memory
}
