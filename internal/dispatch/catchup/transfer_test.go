package catchup

import (
	"log/slog"
	"testing"
	"testing/synctest"

	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/wire"
	"github.com/fanoutd/fanoutd/test/cachertest"
)

// Each kind of catch-up that transfers a state has parts.
func TestEachTransferOfAStateHasParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		codec, err := object.CodecByName("raw")
		if err != nil {
			t.Fatal(err)
		}
		store := cachertest.NewMemory()
		source := cacher.New(cacher.Config{
			Resource: "test", Store: store, Codec: codec, Preencode: wire.Preencode, Log: slog.New(slog.DiscardHandler),
		})
		go source.Run(t.Context())
		<-source.Ready()
		since := source.State().Revision()
		store.Put("k", "1")
		synctest.Wait()
		s := source.State()
		all := feed.NewFeeds(feed.Config{Source: source, Encoder: wire.Encoder{}}, nil)
		all.Enter(&feed.Interest{}, func(f *feed.Feed, _ object.Position) {
			for kind := range object.CatchUpKinds {
				if !kind.TransfersState() {
					continue
				}
				r := NewReader(f, FromSnapshot(0), false, false)
				if p := r.part(&catchUp{kind: kind, since: since, to: s.Revision()}, s); p.End.Taken != 1 || !p.IsLast {
					t.Errorf("%v: got a part with %d objects, want 1", kind, p.End.Taken)
				}
			}
		})
	})
}
