package e2e

import (
	"context"
	"fmt"
	"testing"

	"github.com/fanoutd/fanoutd/internal/object"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/test/loopback"
	"github.com/fanoutd/fanoutd/test/seed"
)

// TestNoWatcherBeginsWithinATransaction checks that a watcher that starts or resumes
// during transactions of many keys receives each transaction whole or not at all: it
// begins between two revisions, never within one.
func TestNoWatcherBeginsWithinATransaction(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	t.Parallel()
	const (
		keysOfEach   = 20
		transactions = 200
		watchers     = 12
	)
	etcd := loopback.FreeAddress(t)
	w := newScenario(t, startServer(t, embedded(t, etcd)...), dialEtcd(t, etcd), promised, seed.New(t))
	for i := range watchers {
		watcher := &watcher{
			name: fmt.Sprintf("watcher %d", i), clients: []fanoutv1.FanoutServiceClient{fanoutv1.NewFanoutServiceClient(dial(t, w.server.address))},
			goal: w.goal, ledger: w.ledger, rng: w.random.Rand(uint64(i)), patience: 2, restChanges: 3 * keysOfEach,
		}
		w.watchers = append(w.watchers, watcher)
		w.actors.Go(func() error { return watcher.run(w.ctx) })
	}
	store := fanoutv1.NewStoreServiceClient(w.server.conn)
	w.writers.Go(func() error {
		defer w.ledger.close()
		for n := range transactions {
			if err := transactMany(w.ctx, store, w.ledger, keysOfEach, n); err != nil {
				return err
			}
		}
		return nil
	})
	w.changes(t, transactions*keysOfEach)

	truth := w.finish(t)
	w.validateWatchers(t, truth)
	// Check the promise once more here, independently of package check.
	begun := 0
	for _, watcher := range w.watchers {
		for i := range watcher.history.Streams {
			s := &watcher.history.Streams[i]
			events := map[object.Revision]int{}
			snapshot := false
			for j := range s.Messages {
				m := &s.Messages[j]
				if m.Kind == object.CatchUpBegin {
					snapshot = m.CatchUp == object.Reset
				}
				for k := range m.Events {
					if !snapshot || m.Kind == object.Live {
						events[m.Events[k].Revision]++
					}
				}
			}
			if len(events) > 0 {
				begun++
			}
			for revision, n := range events {
				if n != keysOfEach {
					t.Errorf("%s, stream %d: %d of %d events of revision %d", watcher.name, i, n, keysOfEach, revision)
				}
			}
		}
	}
	t.Logf("%d streams with events", begun)
	if begun < transactions {
		t.Errorf("the test is too easy: only %d streams had events", begun)
	}
}

// transactMany changes many keys at one revision.
func transactMany(ctx context.Context, store fanoutv1.StoreServiceClient, written *ledger, keys, n int) error {
	request := &fanoutv1.TransactRequest{Resource: resource}
	var changed []object.Key
	for i := range keys {
		key := fmt.Sprintf("torn/%02d", i)
		changed = append(changed, object.Key(key))
		request.Operations = append(request.Operations, &fanoutv1.Operation{Operation: &fanoutv1.Operation_Put{
			Put: &fanoutv1.PutOperation{Key: key, Value: &fanoutv1.PutOperation_Text{Text: fmt.Sprint(n)}},
		}})
	}
	begun := written.begin()
	answer, err := store.Transact(ctx, request)
	if err == nil {
		begun.acknowledged(answer.GetRevision(), changed...)
	}
	return err
}
