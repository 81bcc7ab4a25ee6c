package server

import (
	"context"
	"log/slog"
	"testing"
	"time"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/rpc"
)

// The first message is late from when the watch was asked for, and a catch-up from when it
// was begun: the first one with the watch.
func TestWhatIsSlowOfAWatch(t *testing.T) {
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
		s := &Server{slow: rpc.NewSlowLog(time.Minute, slog.New(slog.DiscardHandler))}
		w := &watching{server: s}
		w.ends.Context, w.session.since = context.Background(), time.Now().Add(-time.Hour)
		w.session.request = askedFor(&fanoutv1.WatchRequest{})
		for i, kind := range c.kinds {
			w.hurry(&object.Header{Kind: kind}, c.first && i == 0)
		}
		if n := s.SlowRequests(); n != c.want {
			t.Errorf("%s: %d were slow, want %d", name, n, c.want)
		}
	}
}
