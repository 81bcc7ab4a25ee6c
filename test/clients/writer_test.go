package clients

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/fanoutd/fanoutd/test/poll"
)

// writer changes objects directly in etcd, so that they change while no server runs.
type writer struct {
	etcd    *clientv3.Client
	rng     *rand.Rand
	changes atomic.Int64 // transactions so far
}

func newWriter(t *testing.T, address string, rng *rand.Rand) *writer {
	t.Helper()
	etcd, err := clientv3.New(clientv3.Config{Endpoints: []string{address}, DialTimeout: poll.Patience, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { etcd.Close() })
	return &writer{etcd: etcd, rng: rng}
}

// write makes about 200 changes per second until ctx ends. It pauses while etcd is down.
func (w *writer) write(ctx context.Context) error {
	pace := time.NewTicker(5 * time.Millisecond)
	defer pace.Stop()
	for ctx.Err() == nil {
		<-pace.C
		if err := w.change(w.operations()); err != nil {
			return fmt.Errorf("write: %w", err)
		}
		w.changes.Add(1)
	}
	return nil
}

// change makes one change. After an error it retries, because writing twice does no harm.
// It ignores the context of write, so that no change is pending when write returns.
func (w *writer) change(ops []clientv3.Op) error {
	ctx, cancel := context.WithTimeout(context.Background(), poll.Patience)
	defer cancel()
	for {
		_, err := w.etcd.Txn(ctx).Then(ops...).Commit()
		if err == nil || ctx.Err() != nil {
			return err
		}
		select {
		// a pause
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// operations returns the operations of one change in one of the resources. Most changes
// have one key, some have five, and a few are larger than a message. All objects together
// are larger than a message as well, so that catch-ups can break in the middle.
func (w *writer) operations() []clientv3.Op {
	n, size := 1, 20<<10
	switch w.rng.IntN(100) {
	case 0:
		n, size = 24, 50<<10
	case 1, 2, 3, 4:
		n, size = 5, 6<<10
	}
	resource := cached
	if w.rng.IntN(4) == 0 {
		resource = uncached
	}
	var ops []clientv3.Op
	first := w.rng.IntN(200)
	for i := range n {
		number := (first + i) % 200
		key := fmt.Sprintf("%s%c/%d", etcdPrefix(resource), 'a'+rune(number%4), number)
		if w.rng.IntN(4) == 0 {
			ops = append(ops, clientv3.OpDelete(key))
			continue
		}
		value := strconv.Itoa(w.rng.IntN(1000))
		if w.rng.IntN(40) == 0 {
			value = "not a number"
		}
		if n > 5 {
			value += strings.Repeat(" ", size)
		} else {
			value += strings.Repeat(" ", w.rng.IntN(size))
		}
		ops = append(ops, clientv3.OpPut(key, value))
	}
	return ops
}

// await waits for n more changes.
func (w *writer) await(ctx context.Context, n int) error {
	until := w.changes.Load() + int64(n)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for w.changes.Load() < until {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// compact compacts etcd at its current revision.
func (w *writer) compact(ctx context.Context) error {
	now, err := w.etcd.Get(ctx, etcdPrefix(cached), clientv3.WithCountOnly())
	if err != nil {
		return fmt.Errorf("compact: %w", err)
	}
	if _, err := w.etcd.Compact(ctx, now.Header.Revision); err != nil {
		return fmt.Errorf("compact: %w", err)
	}
	return nil
}
