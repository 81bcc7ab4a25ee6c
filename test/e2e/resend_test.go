package e2e

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/check"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/test/loopback"
)

// TestRestartsDoNotResendSnapshots restarts the server and stalls subscribers, and checks
// that subscribers receive only what changed. Snapshots for all would cause further
// stalls.
func TestRestartsDoNotResendSnapshots(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	t.Parallel()
	const (
		objects, size = 1000, 1 << 10
		subscribers   = 10
		changing      = 50  // number of objects that change
		rounds        = 15  // of changes to these objects: far more than the window holds
		window        = 100 // changes
	)
	etcd := loopback.FreeAddress(t)
	args := append(configured(t, fmt.Sprintf("resources: [{name: config, window: {min-events: %d, max-events: %d}}]", window, window)), embedded(t, etcd)...)
	s := startServer(t, args...)
	store := fanoutv1.NewStoreServiceClient(s.conn)
	value := strings.Repeat("x", size)
	write := func(from, to int) {
		t.Helper()
		request := &fanoutv1.TransactRequest{Resource: resource}
		for i := from; i < to; i++ {
			request.Operations = append(request.Operations, &fanoutv1.Operation{Operation: &fanoutv1.Operation_Put{
				Put: &fanoutv1.PutOperation{Key: fmt.Sprintf("key-%04d", i), Value: &fanoutv1.PutOperation_Text{Text: value}},
			}})
		}
		if _, err := store.Transact(t.Context(), request); err != nil {
			t.Fatal(err)
		}
	}
	for i := 0; i < objects; i += changing {
		write(i, i+changing)
	}
	all := make([]*recorder, subscribers)
	for i := range all {
		all[i] = newRecorder(t, s.conn, wholeResource())
		all[i].open(t, check.FromNothing)
		all[i].until(t, object.Synced)
	}
	first := catchUpBytes(all)

	for _, signal := range []os.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		// Nobody reads while there are more changes than the window holds.
		for range rounds {
			write(0, changing)
		}
		s.end(t, signal)
		s.start(t)
		for _, r := range all {
			for {
				if _, err := r.receive(t); err != nil {
					break // the restart
				}
			}
			r.open(t, check.After)
			r.until(t, object.Synced)
		}
	}

	truth := readTruth(t, dialEtcd(t, etcd))
	truth.Window = 0 // this test has a smaller window and does not check it
	resets := 0
	for _, r := range all {
		r.validate(t, truth)
		for i := range r.history.Streams[1:] {
			for _, m := range r.history.Streams[i+1].Messages {
				if m.CatchUp == object.Reset {
					resets++
				}
			}
		}
	}
	if resets > 0 {
		t.Errorf("got %d snapshots after the first ones, want 0", resets)
	}
	// After each of the two restarts, a subscriber receives the changed objects, or the
	// changes if the window still has them.
	again := catchUpBytes(all) - first
	if most := subscribers * 2 * window * size; again > most {
		t.Errorf("got %d bytes of catch-ups, want at most %d", again, most)
	}
	t.Logf("%d bytes of first snapshots, %d bytes of catching up", first, again)
}

// catchUpBytes returns the size of the values in all catch-ups.
func catchUpBytes(all []*recorder) int {
	n := 0
	for _, r := range all {
		for i := range r.history.Streams {
			for _, m := range r.history.Streams[i].Messages {
				for k := range m.Events {
					if m.Kind == object.CatchUpPart {
						n += len(m.Events[k].Object.Value)
					}
				}
			}
		}
	}
	return n
}
