package server_test

import (
	"context"
	"strings"
	"testing"
	"time"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/test/poll"
)

// A server is stuck if a change waits for its dispatcher, or if requests are not answered.
func TestAServerThatIsStuckIsNotAlive(t *testing.T) {
	encoder := newHeldEncoder("held")
	in := start(t, settings{encoder: encoder})
	ctx := within(t)
	local, err := in.server.Local()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		in.stop(ctx)
		if err := local.Close(); err != nil {
			t.Error(err)
		}
	}()
	in.watch(ctx, t, &fanoutv1.WatchRequest{Resource: config, Begin: &fanoutv1.WatchRequest_FromNow{FromNow: &fanoutv1.FromNow{}}})
	in.put(ctx, t, config, "held", "1")
	<-encoder.reached
	if err := local.Alive(ctx, time.Hour); err != nil {
		t.Errorf("a change waits for less than the limit: got %v", err)
	}
	if err := local.Alive(ctx, time.Nanosecond); err == nil || !strings.Contains(err.Error(), "waited") {
		t.Errorf("a change waits for longer than the limit: got %v", err)
	}
	close(encoder.release)
	poll.Until(t, "the change is dispatched", func() bool { return local.Alive(ctx, time.Nanosecond) == nil })
	over, cancel := context.WithCancel(ctx)
	cancel()
	if err := local.Alive(over, time.Hour); err == nil {
		t.Error("a request that is not answered in time is no error")
	}
}
