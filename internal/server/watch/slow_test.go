package watch

import (
	"context"
	"log/slog"
	"testing"
	"time"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/rpc"
)

// The first message and the first catch-up are measured from the beginning of the watch, a
// later catch-up from its own beginning.
func TestSlowWatchesAreLogged(t *testing.T) {
	for name, c := range map[string]struct {
		kinds []object.MessageKind // the first one is the first message, if first
		first bool
		want  int64
	}{
		"the first message":      {[]object.MessageKind{object.Live}, true, 1},
		"the first catch-up":     {[]object.MessageKind{object.CatchUpBegin, object.CatchUpPart, object.Synced}, true, 2},
		"a later one":            {[]object.MessageKind{object.CatchUpBegin, object.CatchUpPart, object.Synced}, false, 0},
		"what happens meanwhile": {[]object.MessageKind{object.Live, object.Bookmark}, false, 0},
	} {
		slow := rpc.NewSlowLog(time.Minute, slog.New(slog.DiscardHandler))
		h := &handler{}
		h.sender.init(&h.ctx, &h.entry, nil)
		h.sender.slow = slow
		h.ctx.Context, h.entry.since = context.Background(), time.Now().Add(-time.Hour)
		h.entry.summary = summarize(&fanoutv1.WatchRequest{})
		for i, kind := range c.kinds {
			h.sender.logSlowWatch(&object.Header{Kind: kind}, c.first && i == 0)
		}
		if n := slow.Count(); n != c.want {
			t.Errorf("%s: got %d slow parts, want %d", name, n, c.want)
		}
	}
}
