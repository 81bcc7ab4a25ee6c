package dispatch

import (
	"log/slog"
	"testing"
	"testing/synctest"

	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/cacher/cachertest"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/wire"
)

// An event that comes after a watcher has looked and before it sleeps does not
// let it sleep. From outside the moment cannot be hit.
func TestNoWakeUpIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		codec, err := object.CodecByName("raw")
		if err != nil {
			t.Fatal(err)
		}
		m := cachertest.NewMemory()
		c := cacher.New(cacher.Config{Resource: "test", Store: m, Codec: codec, Seal: wire.Seal, Log: slog.New(slog.DiscardHandler)})
		d := New(Config{Source: c, Encoder: wire.Encoder{}})
		go c.Run(t.Context())
		go d.Run(t.Context())
		synctest.Wait() // the dispatcher has taken the first state
		w := d.Watch(Interest{}, FromNow(c.State().Position()), Options{})
		defer w.Close()
		if _, ok, _ := w.poll(); !ok {
			t.Fatal("there is no bookmark")
		}
		if _, ok, _ := w.poll(); ok || !w.park() {
			t.Fatal("there is something besides the bookmark")
		}
		if _, ok, _ := w.poll(); ok {
			t.Fatal("there is something besides the bookmark")
		}
		m.Put("k", "1")
		synctest.Wait()
		if w.park() {
			t.Error("the watcher sleeps through an event")
		}
		if _, ok, _ := w.poll(); !ok {
			t.Error("the event is not there")
		}
	})
}
