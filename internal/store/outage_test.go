package store_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/store"
	"github.com/fanoutd/fanoutd/test/etcdproc"
	"github.com/fanoutd/fanoutd/test/logs"
	"github.com/fanoutd/fanoutd/test/loopback"
	"github.com/fanoutd/fanoutd/test/poll"
)

// During outages the log has the lines of the store, and none of etcd's client that repeat them.
func TestOutagesAreLoggedWithoutRepetitions(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	link := loopback.NewLink(t, etcdproc.Start(t, "http"))
	var log logBuffer
	s, err := store.Dial(t.Context(), store.ExternalConfig{Endpoints: []string{link.Address}}, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeStore(t, s) })
	c := s.Plain("config", "/test/config/")
	if _, err := c.Position(contextFor(t)); err != nil {
		t.Fatal(err)
	}
	const outages = 3
	for i := range outages {
		before := log.count(`msg="cannot reach etcd"`)
		link.Cut()
		var clients sync.WaitGroup
		ctx, stop := context.WithCancel(t.Context())
		for range 4 {
			clients.Go(func() {
				for ctx.Err() == nil {
					short, cancel := context.WithTimeout(ctx, 50*time.Millisecond) // a client that gives up
					if _, err := c.Position(short); err != nil && !errors.Is(err, object.ErrUnavailable) && short.Err() == nil {
						t.Errorf("got %v during an outage", err)
					}
					cancel()
				}
			})
		}
		poll.Until(t, "the outage is logged", func() bool { return log.count(`msg="cannot reach etcd"`) > before })
		link.Heal()
		poll.Until(t, "its end is logged", func() bool { return log.count(`msg="etcd can be reached again"`) == i+1 })
		stop()
		clients.Wait()
	}
	if n := log.count("component=etcd-client"); n > 0 {
		t.Errorf("etcd's client wrote %d lines:\n%s", n, log.String())
	}
}

// logBuffer counts what a log has.
type logBuffer struct{ logs.Buffer }

func (b *logBuffer) count(text string) int { return strings.Count(b.String(), text) }
